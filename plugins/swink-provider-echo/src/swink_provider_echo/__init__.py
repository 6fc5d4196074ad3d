"""A mock provider that repeats the user's words, without an API key and without a network."""

from swink_provider_echo.provider import EchoProvider
from swink_provider_echo.script import Script, ScriptedCall

__all__ = ["EchoProvider", "Script", "ScriptedCall"]
