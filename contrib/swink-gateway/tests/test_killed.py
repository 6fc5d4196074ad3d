"""An upstream that is killed after any frame: exactly one visible failure in each SDK.

The test ends a recorded answer after each frame with a lost connection. The client must get exactly
one failure, never an answer that looks complete. With `SWINK_GATEWAY_CLIENTS`, all shipped
recordings are cut; otherwise, one with thinking and calls, and one for each other framing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sdks import CLIENTS, Ask
from serving import serving
from upstream import BEGUN_ANEW, CANNOT_TAKE_BACK, EVERYTHING, Answers, Upstream, about, shipped

import swink_core as swink

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ASK = Ask()
CUT = ("anthropic/thinking-and-tool-call", "ollama/tool-calls")

ENDS = {"openai/several-answers": 3}
"""The number of cuts after which an answer lacks only the data after its end; the default is 2.

The second of several answers ends after the first cut.
"""


def expected(protocol: str, upstream: Upstream, body: bytes, terminal: swink.Error) -> str:
    """Return the expected error message.

    A restarted answer fails if its client has output of the first one and cannot discard it.
    """
    anew = upstream.name in BEGUN_ANEW and body.count(b"event: message_start") > 1
    if anew and protocol in CANNOT_TAKE_BACK:
        return "the provider started its answer again"
    return (terminal.error_message or "").partition("\n")[0]


def frames(upstream: Upstream) -> list[bytes]:
    """Split a recorded body at the ends of its frames, as far as bytes show them."""
    body = upstream.source.body
    if b"\n" not in body or upstream.provider == "bedrock":
        return list(_messages(body))
    end = b"\n" if upstream.provider == "ollama" else b"\n\n"
    body = body.replace(b"\r\n", b"\n")
    return [frame + end for frame in body.split(end) if frame.strip()]


def _messages(body: bytes) -> Iterator[bytes]:
    """Yield the messages of an AWS event stream, each of which begins with its length."""
    while body:
        size = int.from_bytes(body[:4], "big")
        yield body[:size]
        body = body[size:]


ANSWERS = [
    upstream
    for group in shipped().values()
    for upstream in group
    if upstream.source.status == 200 and (EVERYTHING or upstream.name in CUT)
]


@pytest.mark.parametrize("upstream", ANSWERS, ids=lambda upstream: upstream.name)
@pytest.mark.parametrize("protocol", CLIENTS)
async def test_an_upstream_killed_at_any_frame_is_one_visible_failure(
    protocol: str, upstream: Upstream
) -> None:
    answers, pieces, complete = Answers(), frames(upstream), 0
    async with (
        serving(http=answers, providers=upstream.providers) as gateway,
        CLIENTS[protocol](gateway.url) as client,
    ):
        for number in range(len(pieces)):
            before = b"".join(pieces[:number])
            _, terminal = await upstream.direct(before)
            answers.next = upstream.answer(before)
            with about(upstream):
                found = await client.stream(upstream.model, ASK)
                if isinstance(terminal, swink.Done):
                    complete += 1  # only the end marker is missing
                    assert found.error is None
                else:
                    assert found.error is not None
                    assert "was cut" not in str(found.error)  # it was reported, not dropped
                    assert expected(protocol, upstream, before, terminal) in found.message
    assert complete <= ENDS.get(upstream.name, 2)
