"""The recorded call of Tarn is made again: every request is the recorded one."""

import swink_core as swink
from swink_core.providers import AiohttpClient
from swink_recorder.recording import Recording, bundled_recordings
from swink_recorder.replay import ReplayServer
from swink_testing.conformance import ProviderConformance

HELLO, _ = bundled_recordings("swink_provider_tarn")


async def test_the_key_is_exchanged_for_the_ticket_of_the_request() -> None:
    async with ReplayServer() as server:
        url = server.add("tarn", Recording.load(HELLO))
        http = server.through(AiohttpClient(), "tarn")
        async with swink.Client(http=http) as client:
            message = await client.complete(
                "tarn/tarn-deep",
                "Why is the sky blue?",
                api_key="key",
                base_url=url,
                temperature=0.5,
            )
        assert message.text == "Rayleigh scattering."
        assert server.problems("tarn") == []


class TestTarn(ProviderConformance):
    provider = "tarn"
