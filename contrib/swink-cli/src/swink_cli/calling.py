"""Show a call as it streams, stop it on Ctrl-C without losing output, and choose its exit code."""

from __future__ import annotations

import asyncio
import difflib
import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import swink_core as swink
from swink_cli.display import Display, Sink, Waiting
from swink_cli.exits import EXIT_FAILURE, EXIT_INCOMPLETE, EXIT_INTERRUPTED
from swink_cli.listing import PLUGIN_GROUP
from swink_cli.summary import summary
from swink_cli.terminal import one_screen, say, show_error
from swink_cli.troubles import TROUBLES, is_failure_logged

if TYPE_CHECKING:
    from swink import Run

__all__ = [
    "exit_code",
    "explain",
    "interruptible",
    "name_broken_plugins",
    "name_unknown_models",
    "show_call",
    "show_end",
]

Stream: TypeAlias = "swink.EventStream | Run"
"""A call, or a tool loop of several calls."""


GIVEN_KEY = "the key of --api-key, or the stored key (swink keys list)"
"""The words in an error's advice for an API key that no environment variable contains."""


class Closable(Protocol):
    """A stream that can be closed when the user presses Ctrl-C."""

    async def aclose(self) -> None:
        """Stop the stream at once, so that its reader ends."""


PATIENCE = 3
"""The number of Ctrl-C presses after which KeyboardInterrupt is raised."""


@asynccontextmanager
async def interruptible(stream: Closable) -> AsyncGenerator[None, None]:
    """Close the stream at the first Ctrl-C, so that reading it ends with the error `aborted`.

    People often press Ctrl-C twice, so the second press does nothing while the stream is being
    closed. If the stream does not close, the third press raises KeyboardInterrupt.
    """
    loop = asyncio.get_running_loop()
    closing: list[asyncio.Task[None]] = []
    presses = 0

    def stop() -> None:
        nonlocal presses
        presses += 1
        if not closing:
            closing.append(loop.create_task(stream.aclose()))
        elif presses >= PATIENCE:
            raise KeyboardInterrupt

    # Where an event loop has no signal handlers (on Windows), Ctrl-C cancels its main task, which
    # closes the stream as well.
    with suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)
        if closing:
            await closing[0]


async def show_call(stream: Stream, sink: Sink, display: Display | None = None) -> Display:
    """Show a call until it ends and return the display, which contains the final event."""
    display = display or Display(sink)
    since = time.monotonic()
    with TROUBLES.held(), closing(display):
        async with (
            stream,
            interruptible(stream),
            Waiting(lambda: f"waiting for {stream.call.model}") as sign,
        ):
            batches: AsyncIterator[Any] = stream.batches()
            async for batch in batches:
                sign.pause()
                display.feed(batch)
                if display.first_token_at is None and display.terminal is None:
                    sign.go_on(since)
    return display


def show_end(stream: swink.EventStream, display: Display) -> bool:
    """Print how a call ended, and return whether the answer is complete."""
    terminal = display.terminal
    if one_screen() and display.first_token_at is not None:
        say("")
    if isinstance(terminal, swink.Error):
        explain(stream.call, terminal)
    if display.first_token_at is not None or isinstance(terminal, swink.Done):
        say(summary(stream, display))
    return isinstance(terminal, swink.Done)


def exit_code(
    message: swink.AssistantMessage,
    options: Mapping[str, Any],
    text: str | None = None,
    whose: str = "The answer",
) -> int:
    """Return the exit code of an answer; print an error if the requested JSON is missing or wrong.

    `text` is the text to check (`None`: the text of the message). `whose` is the name of the answer
    in the error message.
    """
    match message.stop_reason:
        case swink.StopReason.ERROR:
            return EXIT_FAILURE
        case swink.StopReason.ABORTED:
            return EXIT_INTERRUPTED
        case swink.StopReason.LENGTH | swink.StopReason.CONTENT_FILTER | swink.StopReason.PAUSE:
            return EXIT_INCOMPLETE
    asked = swink.StreamOptions(response_format=options.get("response_format")).response_format
    if asked is None or message.tool_calls:
        return 0
    from swink_cli.schemas import fits

    return 0 if fits(message.text if text is None else text, asked, whose) else EXIT_INCOMPLETE


def explain(call: swink.Call, error: swink.Error) -> None:
    """Print why a call failed and what to do. Omit the message if the log already shows it."""
    if error.stop_reason is swink.StopReason.ABORTED:
        say("stopped")
        return
    message = "" if is_failure_logged() else error.error_message
    show_error(error.title or "The call failed", message, _advice(call, error))
    facts = []
    if error.retry_after is not None:
        facts.append(f"the provider asks to wait {ceil(error.retry_after)} s")
    if error.request_id:
        facts.append(f"request id {error.request_id}")
    if facts:
        say("; ".join(facts))


def _advice(call: swink.Call, error: swink.Error) -> str:
    """Return the advice for an error; it names the source of an invalid base URL or key."""
    said, info = error.resolution or "", call.provider_info
    if error.code == "url":
        whence = "the base URL that was passed or configured"
        if info is not None and not call.options.base_url:
            whence = next(filter(os.environ.get, info.base_url_env), whence)
        return f"Correct {whence}. No request was sent."
    if error.error_kind is swink.StreamErrorKind.AUTH and call.options.api_key and info is not None:
        return said.replace(f"Check {' or '.join(info.api_key_env)}.", f"Check {GIVEN_KEY}.")
    return said


def name_broken_plugins(client: swink.Client) -> None:
    """Print a notice for each plugin that could not be loaded; calls continue without it."""
    for entry in client.host.entries():
        if entry.group == PLUGIN_GROUP and entry.error:
            say(f"notice: plugin {entry.name} ({entry.distribution}) is disabled: {entry.error}")


def name_unknown_models(client: swink.Client, models: Iterable[str]) -> None:
    """Print a notice for each model that is not in the catalogue but resembles one that is.

    The call is made nevertheless, because a provider may serve models that the catalogue lacks.
    """
    for name in models:
        model = client.catalog.resolve(name)
        known = [info.id for info in client.catalog.models(model.provider)]
        near = difflib.get_close_matches(model.id, known, 1)
        if model.info is None and near:
            say(
                f"notice: {model} is not in the catalogue; did you mean {model.provider}/{near[0]}?"
            )
