"""Answers that are cut before their end."""

from __future__ import annotations

import asyncio

from swink_core import Error
from swink_core import StreamErrorKind as Kind
from swink_testing.chunking import frame_ends, truncations
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.check import fail, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import comparable, fold

__all__ = ["check_truncation"]


def check_truncation(subject: Subject) -> None:
    """An answer cut before its completing frame is one network error; after it, Done."""

    async def cut() -> None:
        for recording in subject.answers():
            whole = comparable(fold(await subject.parse(recording)))
            complete_at = None
            ends = frame_ends(recording.body, type(subject.provider).decoder)
            for frames, body in truncations(recording.body, ends):
                where = f"recording {recording.name} cut after {frames} of {len(ends)} frames"
                events = await subject.parse(recording, [body])
                if (broken := broken_rule(events)) is not None:
                    fail(f"{where}: {broken}")
                terminal = events[-1]
                if isinstance(terminal, Error):
                    require(
                        terminal.error_kind is Kind.NETWORK,
                        f"{where} ends in Error({terminal.error_kind}), not in Error(network)",
                    )
                    require(
                        complete_at is None,
                        f"{where} ends in an error, though it was Done after {complete_at} frames",
                    )
                    continue
                complete_at = frames if complete_at is None else complete_at
                found = comparable(fold(events))
                require(
                    found.content == whole.content and found.stop_reason is whole.stop_reason,
                    f"{where} ends in Done({found.stop_reason}) with half an answer",
                )

    asyncio.run(cut())
