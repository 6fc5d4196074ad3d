"""Keeps what a live stream carried, for a recording.

async with client.stream(model, prompt) as stream:
    tape = Tape(stream.call)
    async for _ in stream: ...
    tape.recording(stream.message).save(folder, secrets=stream.call.secrets)

An observer does the same with the call that it is given at `Start`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec
from attrs import evolve

from swink_core import AssistantMessage, Call, UsageError
from swink_core.providers import Attempt
from swink_recorder.recording import RecordedRequest, Recording

__all__ = ["Tape"]

_KEPT_HEADERS = ("content-type", "retry-after", "request-id", "x-request-id")


class Tape:
    """What was read in each attempt of a call, and when; made before the call is read."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._attempt: Attempt | None = None
        self._reads: list[tuple[float, bytes]] = []
        call.taps.append(self._take)

    def _take(self, attempt: Attempt, data: bytes) -> None:
        if attempt is not self._attempt:
            self._attempt, self._reads = attempt, []
        began = attempt.response.at if attempt.response else self._call.started_at
        self._reads.append((max(0.0, self._call.clock.time() - began), data))

    def recording(self, message: AssistantMessage | None = None, note: str = "") -> Recording:
        """Return the last attempt that was answered, with the message that it made, if given.

        What differs from run to run and is not in the body (cost, request id) is left out of
        the message. Raises UsageError where nothing was answered over HTTP.
        """
        attempt = self._attempt
        if attempt is None or attempt.request is None or attempt.response is None:
            raise UsageError(
                f"{self._call.model} was not answered over HTTP, so there is nothing to record",
                resolution="See the error above; check the key and the address.",
            )
        url, info, head = urlsplit(attempt.request.url), attempt.provider_info, attempt.response
        return Recording(
            provider=attempt.model.provider,
            model=attempt.model.id,
            body=b"".join(data for _, data in self._reads),
            chunks=[(seconds, len(data)) for seconds, data in self._reads],
            wire_format=info.wire_format if info else "",
            note=note,
            request=RecordedRequest(
                attempt.request.method,
                f"{url.path}?{url.query}" if url.query else url.path,
                dict(attempt.request.headers),
                _json(attempt.request.body),
            ),
            status=head.status,
            headers={
                name: value for name, value in head.headers.items() if name.lower() in _KEPT_HEADERS
            },
            message=message and evolve(message, cost=None, request_id=None),
        )


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
