"""Signatures of thinking in separate frames."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from swink_core import Event, ThinkingBlock
from swink_testing.conformance.answers.edited_answers import answers, data_of
from swink_testing.conformance.answers.joined_frames import at, texts_in, with_value
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import fold

__all__ = ["check_signatures_apart"]


def check_signatures_apart(subject: Subject) -> None:
    """A signature in a separate frame, after the last text of the thinking, is kept."""

    async def compare() -> None:
        found = False
        for recording, answer in answers(subject):
            whole = await subject.parse(recording)
            signed, thought = _signatures(whole), _thought(whole)
            for place, frame in enumerate(answer.frames):
                for data in data_of(answer, frame):
                    apart = _apart(data, signed, thought)
                    if apart is None:
                        continue
                    found = True
                    two = [answer.frame(json.dumps(each).encode()) for each in apart]
                    body = b"".join([*answer.frames[:place], *two, *answer.frames[place + 1 :]])
                    kept = _signatures(await subject.parse(recording, [body]))
                    require(
                        kept == signed,
                        f"recording {recording.name}: where the signature of frame {place + 1} "
                        "comes after its text, it is lost",
                        body,
                        sorted(signed),
                    )
        if not found:
            raise DoesNotApply("no recorded frame has both a signature and its thinking")

    asyncio.run(compare())


def _signatures(events: Sequence[Event]) -> set[str]:
    blocks = fold(events).content
    return {b.signature for b in blocks if isinstance(b, ThinkingBlock) and b.signature}


def _thought(events: Sequence[Event]) -> str:
    blocks = fold(events).content
    return "\n".join(b.thinking for b in blocks if isinstance(b, ThinkingBlock))


def _apart(data: Any, signed: set[str], thought: str) -> tuple[Any, Any] | None:
    """Return a frame without its signature, and without its text; `None` if it has not both."""
    strings = list(texts_in(data))
    signatures = [path for path, value in strings if value in signed]
    texts = [path for path, value in strings if value and value in thought and path[-1] != "type"]
    if len(signatures) != 1 or len(texts) != 1:
        return None
    [[*way, name]], [text] = signatures, texts
    unsigned = {key: value for key, value in at(data, tuple(way)).items() if key != name}
    return with_value(data, tuple(way), unsigned), with_value(data, text, "")
