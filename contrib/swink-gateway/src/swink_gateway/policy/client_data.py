"""Report failed conversions as invalid requests if data from the client may be the cause.

An answer contains encoded data for a provider's plugin. The client sends this data back in its next
request. If a client sends other data in its place, the plugin may raise an exception; the client,
and not the plugin, is then at fault.
"""

from __future__ import annotations

from swink_core import Context, Done, Error, ExtensionBlock, ResponseHead, StreamErrorKind, Target

__all__ = ["ClientDataGate"]

_PLUGIN_RAISED = "plugin"
"""The error code of an exception in a plugin."""


class ClientDataGate:
    """An item of `Call.gates`: reports a failed conversion of `context` as an invalid request."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def enter(self, target: Target) -> None:
        """Admit every target."""

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Change the failure of a plugin to an invalid request, if the client's data may cause it.

        If the provider has sent a response, the conversion succeeded, and the failure is not
        changed.
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
    """Return True if a conversation has data that only a provider's plugin can read."""
    for message in context.messages:
        content = message.content
        for block in () if isinstance(content, str) else content:
            if isinstance(block, ExtensionBlock) or getattr(block, "metadata", None):
                return True
    return False
