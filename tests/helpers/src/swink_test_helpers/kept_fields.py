"""Compare recordings with messages, field by field: a pytest class to subclass.

    class TestKeptFields(KeptFields):
        provider = AcmeProvider("acme")
        folders = {"acme": "acme/large"}
        left_out = {"choices.index": "one answer is read"}

Each completed stream of the corpus becomes a message, and every value of its frames is searched for
in it: text as a part of some text, a number as a number, a flag by its name. A field whose value
does not occur, in any stream, must be named in `left_out`, with the reason. Lists count as their
elements; in `left_out`, `*` stands for any text in a path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import msgspec

from swink_core import Done, Model, Notice, dump
from swink_judge.request_readers import strings_of
from swink_recorder.recording import Recording
from swink_test_helpers.corpus import Case, shipped_answers, stream_cases
from swink_testing.driver import drive_bytes, fold

__all__ = ["KeptFields", "fields_of", "missing_fields"]


class KeptFields:
    """A test that every field that is left out has its reason, and every reason its field."""

    provider: ClassVar[Any]
    """The provider that parses the streams."""

    folders: ClassVar[Mapping[str, Model | str]]
    """The folders of the corpus, with the model that each is read for."""

    package: ClassVar[str] = ""
    """The package whose shipped recordings are read too; none if empty."""

    left_out: ClassVar[Mapping[str, str]]
    """The paths of fields that no message holds, and why."""

    def test_fields_missing_in_messages_have_a_reason(self) -> None:
        """Read all streams of the folders."""
        import pytest

        cases: list[tuple[Case | Recording, Model | str]] = [
            (case, model) for name, model in self.folders.items() for case in stream_cases(name)
        ]
        if self.folders and not cases:
            pytest.skip("the corpus is not here (SWINK_CORPUS)")
        if self.package:
            cases += [(shipped, shipped.model) for shipped in shipped_answers(self.package)]
        missing: dict[str, str] = {}
        for case, model in cases:
            for path, value in self.missing(case, model):
                missing.setdefault(path, f"{case.name}: {value!r:.80}")
        unknown = {
            path: where
            for path, where in missing.items()
            if not any(fnmatchcase(path, pattern) for pattern in self.left_out)
        }
        assert not unknown, "\n".join(f"{path}  {where}" for path, where in unknown.items())
        idle = [p for p in self.left_out if not any(fnmatchcase(path, p) for path in missing)]
        assert not idle, "every stream keeps these, or has none"

    def missing(self, case: Case | Recording, model: Model | str) -> list[tuple[str, Any]]:
        """List the fields of a completed stream that its message does not hold."""
        events = asyncio.run(drive_bytes(self.provider, model, [case.body]))
        if not isinstance(events[-1], Done):
            return []
        message = dump(fold(events))
        told = [event.detail for event in events if isinstance(event, Notice)]
        frames = self.frames(case)
        return missing_fields(frames, [message, *told])

    def frames(self, case: Case | Recording) -> list[Any]:
        """Decode a stream's frames."""
        decoder = type(self.provider).decoder()
        found = []
        for frame in [*decoder.feed(case.body), *decoder.finish()]:
            try:
                found.append(msgspec.json.decode(frame))
            except msgspec.DecodeError:
                continue  # a marker such as [DONE]
        return found


def fields_of(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of all that is in JSON data, but for what is empty."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from fields_of(value, f"{path}.{name}" if path else name)
    elif isinstance(data, list):
        for item in data:
            yield from fields_of(item, path)
    elif data is not None and data != "":
        yield path, data


def missing_fields(frames: Any, message: Any) -> list[tuple[str, Any]]:
    """List the fields of frames whose values are nowhere in a message's JSON data."""
    said = "\0".join(strings_of(message))
    numbers = {value for _, value in fields_of(message) if type(value) in (int, float)}
    found = []
    for path, value in fields_of(frames):
        if isinstance(value, str):
            held = value in said
        elif isinstance(value, bool):
            held = path.rpartition(".")[2] in said
        else:
            held = value in numbers
        if not held:
            found.append((path, value))
    return found
