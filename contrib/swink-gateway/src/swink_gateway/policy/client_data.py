"""Conversions that fail because of data that the client sends.

The gateway seals data of a provider's plugin in answers, and clients send it back. A client can
send any other data in its place, and the plugin may raise. That is an invalid request.
"""

from __future__ import annotations

from swink_core import Context, Done, Error, ExtensionBlock, ResponseHead, StreamErrorKind, Target

__all__ = ["ClientDataGate"]

_PLUGIN_RAISED = "plugin"
"""The error code of an exception in a plugin."""


class ClientDataGate:
    """An item of `Call.gates` that blames a failed conversion on the data in `context`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def enter(self, target: Target) -> None:
        """Admit every target."""

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Change the failure of a plugin to an invalid request, if the client's data may cause it.

        A plugin that has received a response has converted the request.
        """
        if (
            isinstance(terminal, Error)
            and terminal.code == _PLUGIN_RAISED
            and response is None
            and _has_own_data(self._context)
        ):
            terminal.error_kind = StreamErrorKind.INVALID_REQUEST
            terminal.title = "The request is invalid"
            terminal.error_message = (
                "the conversation has data that the model's provider did not make: send data of "
                "earlier answers unchanged, or leave it out"
            )
            terminal.resolution = ""


def _has_own_data(context: Context) -> bool:
    """Tell whether a conversation has data that only a plugin reads."""
    for message in context.messages:
        content = message.content
        for block in () if isinstance(content, str) else content:
            if isinstance(block, ExtensionBlock) or getattr(block, "metadata", None):
                return True
    return False
