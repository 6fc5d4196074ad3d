"""A check that the API key is contained only in requests."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from swink_core import StreamError, dump
from swink_core.providers import HTTPProvider
from swink_recorder.legs import RecordedRequest
from swink_recorder.recording import Recording
from swink_recorder.scrub import scrub_headers, scrub_url
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.played import PlayedClient
from swink_testing.conformance.subject import CANARY_KEY, Subject
from swink_testing.driver import MemoryResponse

__all__ = ["check_no_secret_leaks"]


def check_no_secret_leaks(subject: Subject) -> None:
    """No repr, log, printed output, event, exception, traceback or recording contains the key."""
    for recording in subject.recordings:
        for leg in recording.legs:
            request = leg.request
            require(
                scrub_headers(request.headers) == request.headers
                and scrub_headers(leg.headers) == leg.headers
                and scrub_url(request.path) == request.path,
                f"recording {recording.name} holds what looks like a credential",
            )
    if not (subject.speaks_http or subject.can_be_called or subject.is_played):
        raise DoesNotApply("it answers from somewhere else: use --offline or --live")
    info = subject.info
    with ExitStack() as stack:
        if subject.is_played and not subject.can_be_called:
            stack.enter_context(subject.playing(subject.answers()[0]))
        asyncio.run(_look(subject, subject.call_options()))
        if info is not None and info.api_key_env:
            options = {k: v for k, v in subject.call_options().items() if k != "api_key"}
            stack.enter_context(
                patch.dict(os.environ, {info.api_key_env[0]: subject.key(CANARY_KEY)})
            )
            asyncio.run(_look(subject, options))


async def _look(subject: Subject, options: Mapping[str, Any]) -> None:
    with _logged() as lines, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        for what, http in _answers(subject):
            shown, secrets = await _shown(subject, http, options)
            for where, text in shown.items():
                require(CANARY_KEY not in text, f"{what}: the key shows in {where}")
            if http.requests:
                written = _recorded(subject, http, secrets)
                require(CANARY_KEY not in written, f"{what}: the key shows in a recording")
    for name, printed in (("out", out), ("err", err)):
        require(CANARY_KEY not in printed.getvalue(), f"the key is printed to std{name}")
    for line in lines:
        require(CANARY_KEY not in line, f"the key is logged: {line.replace(CANARY_KEY, '…')}")


def _answers(subject: Subject) -> Iterator[tuple[str, PlayedClient]]:
    if not subject.speaks_http:
        yield "a call", subject.http()
        return
    key = subject.key(CANARY_KEY)
    refusal = {"error": {"message": f"Incorrect API key provided: {key}", "code": "bad_key"}}
    yield "a refused key", subject.http(*[MemoryResponse.of_json(refusal, 401)] * 2)
    yield "a server that is away", subject.http(OSError(f"no route with {key}"))
    for recording in subject.recordings[:1]:
        yield "an answer", subject.http(MemoryResponse.of_recording(recording))


async def _shown(
    subject: Subject, http: PlayedClient, options: Mapping[str, Any]
) -> tuple[dict[str, str], Iterable[str]]:
    """Make a call; return all texts about it that a person might see, and the call's secrets."""
    client = subject.client(http)
    events: list[Any] = []
    async with client.stream(subject.model, "Hello", **options) as stream:
        async for event in stream:
            events.append(event)
        try:
            await stream.result()
        except StreamError as error:
            raised = f"{error}\n{error!r}\n{vars(error)}\n{_trace(error)}"
        else:
            raised = ""
    credential: Any = None
    if http.requests and isinstance(subject.provider, HTTPProvider):
        credential = subject.provider.credential(http.requests[0], stream.call.options)
    texts = {
        "the repr of the provider": repr(subject.provider),
        "the repr of the credential": "" if isinstance(credential, str) else repr(credential),
        "the repr of the call": repr(stream.call) + repr(stream.call.options),
        "the repr of a request": repr(http.requests),
        "an event": repr(events) + str(dump(events)),
        "an exception": raised,
    }
    return texts, stream.call.secrets


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _recorded(subject: Subject, http: PlayedClient, secrets: Iterable[str]) -> str:
    """Save the first request as `swink record` does, and return the text of the files."""
    request = http.requests[0]
    recording = Recording(
        subject.name,
        subject.model.id,
        b"",
        [],
        request=RecordedRequest(request.method, request.url, dict(request.headers)),
    )
    with tempfile.TemporaryDirectory() as folder:
        recording.save(folder, secrets)
        return "".join(path.read_text("utf-8") for path in Path(folder).iterdir())


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect every log line, whatever level its logger is set to."""
    root, handler = logging.getLogger(), _Lines()
    loggers = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    kept = [(logger, logger.level) for logger in (root, *loggers)]
    root.addHandler(handler)
    try:
        for logger, _ in kept:
            logger.setLevel(logging.DEBUG)
        yield handler.lines
    finally:
        root.removeHandler(handler)
        for logger, level in kept:
            logger.setLevel(level)
