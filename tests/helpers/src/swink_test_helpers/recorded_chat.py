"""Recorded streams of Chat Completions in any dialect, and what each should become.

For the package that speaks the wire format, and for those that declare a dialect of it:

    class TestRecorded(RecordedChat):
        folder = "acme"
        provider = AcmeProvider("acme")

See `swink_test_helpers.corpus`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import msgspec

from swink_core import Error, Model, StopReason, StreamErrorKind
from swink_core.providers import SSEDecoder
from swink_test_helpers.corpus import Case, ids, stream_cases
from swink_testing.chunking import chunkings, frame_ends, truncations
from swink_testing.driver import comparable, comparable_events, drive_bytes, fold

__all__ = [
    "STOPS",
    "RecordedChat",
    "completes_after",
    "expected_calls",
    "expected_stop",
    "expected_text",
    "expected_thinking",
]

STOPS = {
    "stop": StopReason.STOP,
    "length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
}


def expected_text(case: Case) -> str:
    """Return the answer's text; a refusal is the text of an answer."""
    return (case.reference["text"] or "") + (case.reference["refusal"] or "")


def expected_thinking(case: Case) -> str:
    """Return the visible reasoning."""
    return case.reference["reasoning"] or ""


def expected_calls(case: Case) -> list[tuple[str, str, str]]:
    """Return id, name and text of the arguments of choice 0's calls."""
    return [
        (call["id"], call["name"], call["arguments"] or "")
        for call in case.reference["tool_calls"]
        if not call.get("choice")
    ]


def expected_stop(case: Case) -> StopReason:
    """Return the stop reason of an answer that contains one or ends with `[DONE]`."""
    if b'"native_finish_reason":"max_output_tokens"' in case.body:
        return StopReason.LENGTH  # of a call that was cut off OpenRouter says `tool_calls`
    word = next((word for word in case.reference["finish_reasons"] if word), None)
    reason = STOPS[word] if word else StopReason.STOP
    if reason is StopReason.STOP and case.reference["refusal"]:
        return StopReason.CONTENT_FILTER
    if reason is StopReason.STOP and expected_calls(case):
        return StopReason.TOOL_USE
    return reason


def completes_after(body: bytes) -> tuple[int | None, int | None]:
    """Return after how many frames an answer is complete, and its error, if ever."""
    complete = error = None
    counted = False
    decoder = SSEDecoder()
    for number, frame in enumerate([*decoder.feed(body), *decoder.finish()], 1):
        data: dict[str, Any] = {}
        done = frame.strip() == b"[DONE]"
        if not done:
            data = msgspec.json.decode(frame)
        counted |= bool(data.get("usage") or (data.get("x_groq") or {}).get("usage"))
        done &= counted  # what lost the answer may send the marker too
        choices = data.get("choices") or ()
        done |= any(c.get("finish_reason") and not c.get("index") for c in choices)
        if done and complete is None:
            complete = number
        if data.get("error") and error is None:
            error = number
    return complete, error


class RecordedChat:
    """Each recorded answer is what was recorded, cut anywhere, and no success before its end."""

    folder: ClassVar[str]
    provider: ClassVar[Any]

    finishes_often: ClassVar[Collection[str]] = ()
    """Cases written by hand, whose every frame has a finish reason: cut, they have less content."""

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make a test of each case; pytest calls it on collection."""
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", stream_cases(self.folder), ids=ids)

    async def test_an_answer_is_as_recorded(self, case: Case) -> None:
        """Compare with the independent reading."""
        message = fold(await self._events([case.body]))
        assert message.text == expected_text(case)
        assert message.thinking == expected_thinking(case)
        calls = [(call.id, call.name, call.raw_arguments) for call in message.tool_calls]
        assert calls == expected_calls(case)
        assert message.stop_reason == expected_stop(case)

    async def test_where_a_read_ends_never_matters(self, case: Case) -> None:
        """Read the same body in other pieces."""
        expected = comparable_events(await self._events([case.body]))
        for name, chunks in chunkings(case.body, SSEDecoder, range(4)):
            assert comparable_events(await self._events(chunks)) == expected, name

    async def test_a_cut_is_a_network_error_until_the_answer_is_complete(self, case: Case) -> None:
        """Break the body off after each frame."""
        complete, _ = completes_after(case.body)
        whole = comparable(fold(await self._events([case.body])))
        for frames, body in truncations(case.body, frame_ends(case.body, SSEDecoder)):
            events = await self._events([body])
            if complete is None or frames < complete:
                assert isinstance(events[-1], Error), frames
                assert events[-1].error_kind is StreamErrorKind.NETWORK, frames
            else:
                content = comparable(fold(events)).content
                assert content == whole.content or case.name in self.finishes_often, frames

    async def _events(self, chunks: list[bytes]) -> list[Any]:
        return [*await drive_bytes(self.provider, Model(self.provider.name, "any"), chunks)]
