"""{{ cookiecutter.title }}, without HTTP: the plugin's own `stream` hook makes the events.

If the answer comes as bytes from a process or a socket, derive from `providers.HTTPProvider`, set
`speaks_http = False` and yield the bytes from `exchange`. Then a parser makes the events, and
`swink record` makes recordings.
"""

from collections.abc import AsyncIterator

import swink_core as swink
from swink_core import providers


class {{ cookiecutter.class_name }}:
    """Replace the body of `_events` with calls of your provider, such as a library."""

    api_level = 1

    def __init__(self, name: str) -> None:
        self.name = name

    @swink.hookimpl
    def stream(
        self,
        model: swink.Model,
        context: swink.Context,
        options: swink.StreamOptions,
        call: swink.Call,
    ) -> AsyncIterator[swink.AssistantMessageEvent]:
        return self._events(context)

    async def _events(self, context: swink.Context) -> AsyncIterator[swink.AssistantMessageEvent]:
        last = context.messages[-1]
        yield swink.Start()
        yield swink.TextStart(0)
        yield swink.TextDelta(0, f"You said: {providers.text_of(last.content)}")
        yield swink.TextEnd(0)
        yield swink.Done(swink.StopReason.STOP)

    @swink.hookimpl
    def convert_messages(
        self, model: swink.Model, context: swink.Context, options: swink.StreamOptions
    ) -> dict[str, object]:
        messages = [swink.dump(message) for message in providers.normalise(context, self.name)]
        return {"system": context.system_prompt, "messages": messages}
