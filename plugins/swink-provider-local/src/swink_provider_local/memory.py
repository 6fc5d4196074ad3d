"""Estimate the memory of an engine: the weights, the KV cache, and `cache_ram`.

The KV cache contains the keys and values of every layer for every token of the context. Its size
follows from the shape of the model (number of layers and so on), which is in the header of the
model file: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. For models with a sliding
window, the result is an upper bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from swink_provider_local.choice import CACHE_TYPES
from swink_provider_local.engine import Settings

__all__ = ["MIB", "memory_of"]

MIB = 1024 * 1024
MAGIC = b"GGUF"
TEXT, ARRAY = 8, 9
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
"""Maps GGUF's type numbers of numeric types to format characters of the module `struct`."""

LONGEST = 1 << 24
"""Maximum size in bytes or items of a metadata value that describes the model's shape."""

AFTER = "tokenizer."
"""The prefix of the keys of the vocabulary in the header of a model file.

The vocabulary is long and follows the data about the model's shape, so reading stops at the first
such key.
"""


def memory_of(settings: Settings) -> int:
    """Return the memory of an engine in bytes: weights, KV cache and `cache_ram`.

    If the header of the model file cannot be read, the KV cache is left out.
    """
    size = settings.path.stat().st_size if settings.path.is_file() else 0
    with suppress(OSError, ValueError, KeyError, TypeError, ArithmeticError, struct.error):
        numbers = settings.context * _numbers_a_token(settings.path)
        size += int(numbers * CACHE_TYPES[settings.cache_type])
    return size + settings.cache_ram * MIB


def _numbers_a_token(path: Path) -> int:
    """Return the number of cached values per token."""
    told = _shape(path)
    prefix = f"{told['general.architecture']}."
    shape = {key.removeprefix(prefix): value for key, value in told.items()}
    heads = shape["attention.head_count"]
    kept = shape.get("attention.head_count_kv", heads)
    all_kept = sum(kept) if isinstance(kept, list) else kept * shape["block_count"]
    width = shape["embedding_length"] // (max(heads) if isinstance(heads, list) else heads)
    keys = shape.get("attention.key_length", width)
    values = shape.get("attention.value_length", width)
    return int(all_kept * (keys + values))


def _shape(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise ValueError("not a GGUF file")
        _, _, count = _read(file, "<IQQ")
        return dict(_entries(file, count))


def _entries(file: IO[bytes], count: int) -> Iterator[tuple[str, Any]]:
    for _ in range(count):
        key = _value(file, TEXT)
        if key.startswith(AFTER):
            return
        yield key, _value(file, _read(file, "<I")[0])


def _value(file: IO[bytes], kind: int) -> Any:
    if kind == ARRAY:
        of, length = _read(file, "<IQ")
        return [_value(file, of) for _ in range(_bounded(length))]
    if kind == TEXT:
        return file.read(_bounded(_read(file, "<Q")[0])).decode()
    return _read(file, f"<{NUMBERS[kind]}")[0]


def _bounded(length: int) -> int:
    if length > LONGEST:
        raise ValueError("longer than any value")
    return length


def _read(file: IO[bytes], form: str) -> tuple[Any, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))
