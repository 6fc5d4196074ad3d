"""A provider that answers with your own words: no key, no network, the same every time."""

from swink_provider_echo.provider import EchoProvider
from swink_provider_echo.script import Script, ScriptedCall

__all__ = ["EchoProvider", "Script", "ScriptedCall"]
