"""The recorded calls of Kiln are made again: every request is the recorded one."""

import pytest

import swink_core as swink
from swink_core.providers import AiohttpClient
from swink_recorder.recording import Recording, bundled_recordings
from swink_recorder.replay import ReplayServer
from swink_testing.conformance import ProviderConformance

RECORDINGS = {folder.name: folder for folder in bundled_recordings("swink_provider_kiln")}


@pytest.mark.parametrize(("name", "leaves", "text"), [
    ("hello", False, "Rayleigh scattering."),
    ("left", True, "Rayleigh"),
])  # fmt: skip
async def test_a_firing_is_created_watched_and_halted_if_it_is_left(
    name: str, leaves: bool, text: str
) -> None:
    async with ReplayServer() as server:
        url = server.add("kiln", Recording.load(RECORDINGS[name]))
        http = server.through(AiohttpClient(), "kiln")
        async with swink.Client(http=http) as client:
            asked = client.stream(
                "kiln/kiln-large",
                "Why is the sky blue?",
                api_key="key",
                base_url=url,
                temperature=0.5,
            )
            async with asked as stream:
                async for event in stream:
                    if leaves and isinstance(event, swink.TextDelta):
                        break
            assert stream.message.text == text
        assert server.problems("kiln") == []


class TestKiln(ProviderConformance):
    provider = "kiln"
