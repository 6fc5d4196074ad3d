"""How much memory an engine is taken to need."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from make_tiny_gguf import write_model

from swink_provider_local.engine import Settings
from swink_provider_local.memory import MIB, memory_of


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    return path


@pytest.mark.parametrize("context", [1, 4096])
@pytest.mark.parametrize("kept_as", ["f16", "q8_0", "q4_0"])
def test_the_cache_is_as_large_as_the_engines_own_estimate(
    gguf: Path, context: int, kept_as: str
) -> None:
    memory = pytest.importorskip("xllamacpp.memory", exc_type=ImportError)
    reader = pytest.importorskip("gguf", reason="gguf is not installed").GGUFReader(gguf)
    metadata = memory.dump_metadata_json(reader, str(gguf))["metadata"]
    theirs = sum(memory.graph_size(metadata, context, 1, 1, kept_as)[0])
    ours = memory_of(Settings(gguf, context, cache_type=kept_as, cache_ram=0))
    # theirs leaves out the scales that stand beside each 32 numbers
    scales = {"f16": 1, "q8_0": 34 / 32, "q4_0": 18 / 16}[kept_as]
    assert ours - gguf.stat().st_size == int(theirs * scales)


def test_what_is_kept_beside_the_context_counts(gguf: Path) -> None:
    without, with_it = (memory_of(Settings(gguf, 1, cache_ram=ram)) for ram in (0, 3))
    assert with_it - without == 3 * MIB


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def _file(**shape: int | list[int] | str) -> bytes:
    """Write the beginning of a model file, with a vocabulary that should not be read."""
    rows = []
    for name, value in {"general.architecture": "acme", **shape, "tokenizer.x": "y"}.items():
        key = _text(name if "." in name else f"acme.{name.replace('__', '.')}")
        if isinstance(value, str):
            rows.append(key + struct.pack("<I", 8) + _text(value))
        elif isinstance(value, list):
            head = struct.pack("<IIQ", 9, 4, len(value))
            rows.append(key + head + struct.pack(f"<{len(value)}I", *value))
        else:
            rows.append(key + struct.pack("<II", 4, value))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(rows)) + b"".join(rows)


SHAPE: dict[str, Any] = {"block_count": 3, "embedding_length": 64, "attention__head_count": 4}

# (the shape, how many numbers a token has)
SHAPES: list[tuple[dict[str, Any], int]] = [
    (SHAPE, 3 * 4 * (16 + 16)),
    ({**SHAPE, "attention__head_count_kv": 2}, 3 * 2 * (16 + 16)),
    ({**SHAPE, "attention__head_count_kv": [2, 0, 1]}, 3 * (16 + 16)),
    ({**SHAPE, "attention__key_length": 24, "attention__value_length": 8}, 3 * 4 * (24 + 8)),
    ({"block_count": 3}, 0),
    ({**SHAPE, "attention__head_count": 0}, 0),
]


@pytest.mark.parametrize(("shape", "numbers"), SHAPES)
def test_a_models_shape_says_what_a_token_takes(
    shape: dict[str, Any], numbers: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(_file(**shape))
    assert memory_of(Settings(path, 10, cache_ram=0)) == path.stat().st_size + 10 * numbers * 2


BROKEN = [
    b"",
    b"GG",
    b"something else entirely",
    _file(**SHAPE)[:40],
    b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60),
    b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _text("a") + struct.pack("<I", 99),
]


@pytest.mark.parametrize("content", BROKEN)
def test_of_what_is_no_model_the_file_alone_counts(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(content)
    assert memory_of(Settings(path, 10, cache_ram=0)) == len(content)


def test_what_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert memory_of(Settings(tmp_path / "none.gguf", 10, cache_ram=0)) == 0
