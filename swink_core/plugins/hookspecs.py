"""The four hooks. A plugin implements one or more of them as functions marked `@hookimpl`.

    import swink_core as swink

    class Redactor:
        @swink.hookimpl(wrapper=True)
        def convert_messages(self, model, context, options):
            body = yield
            return without_names(body)

The hooks of the call's provider are always called. Shared plugins (entry-point group
`swink.plugins`, or `Client(plugins=[…])`) apply to every call. A hook of a shared plugin is called
before the provider's hook if it is marked `tryfirst=True`, around it if it is marked
`wrapper=True`, and after it if it is marked `trylast=True`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from swink_core.failures.failure import Classification, Failure
    from swink_core.plugins.call import Call
    from swink_core.vocabulary.events import AssistantMessageEvent
    from swink_core.vocabulary.messages import Context
    from swink_core.vocabulary.models import Model
    from swink_core.vocabulary.options import StreamOptions


PROJECT = "swink"

hookspec = pluggy.HookspecMarker(PROJECT)

hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def stream(
    model: Model, context: Context, options: StreamOptions, call: Call
) -> AsyncIterable[AssistantMessageEvent] | None:
    """Return the events of one attempt, or `None` to let the next plugin handle the attempt.

    The hook itself must not do I/O: the request is sent when the result is iterated. Unless the
    result is an `EventSource` of the core, the order of the events is checked. A wrapper that
    iterates over the result that it wraps must use `contextlib.aclosing`. The `stream` of a shared
    plugin must be a plain function: an async generator function never returns `None`, so it would
    take over every call, and its registration is rejected.
    """


@hookspec(firstresult=True)
def convert_messages(
    model: Model, context: Context, options: StreamOptions
) -> dict[str, Any] | None:
    """Return the whole JSON body of the request: conversation, tools, options and `extra`.

    Only address, headers and credentials are added later. A wrapper therefore sees everything else
    that is sent. A wrapper may change the body, or return another one, or refuse the call by
    raising `UsageError` or `ProviderFailure`. Any other exception, or a result that is not a dict,
    also ends the call before anything is sent, with an error that names the plugin.

    The hook must be pure: it reads the files that the conversation names, does no other I/O, and
    does not change `context` and `options`. A conversation of more than 1 MB is converted in a
    thread. Raises `UsageError` for content that the API's format cannot represent.
    """


@hookspec(firstresult=True)
def classify_error(model: Model, failure: Failure) -> Classification | None:
    """Classify a failure, or return `None` to let the next plugin classify it.

    Decide by the provider's error code, or else by the wording of the error message, or else by the
    HTTP status. Do not guess: return `None` if none of them is conclusive.
    """


@hookspec
def on_event(event: AssistantMessageEvent, call: Call) -> None:
    """Observe one event of a call. Every event is observed, in order, before the caller gets it.

    The hook must not block, and must not change or store the event. If it raises an exception, the
    exception is logged, and the observer gets no more events of that call; the stream continues.
    `wrapper=True` is rejected. A plugin with the attribute `other_events = True` also receives
    events whose classes other libraries define, such as the turns of a tool loop. When such an
    event is observed, `call` may not have begun yet, or may have ended.
    """
