"""A provider that repeats the user's words: no key, no network, and the same answer every time."""

from swink_provider_echo.provider import EchoProvider
from swink_provider_echo.script import Script, ScriptedCall

__all__ = ["EchoProvider", "Script", "ScriptedCall"]
