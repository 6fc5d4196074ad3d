"""The conformance kit on Hooli, and what is Hooli's own: the token, and the header of who pays."""

from pathlib import Path

import pytest

import swink_core as swink
from swink_core.providers import HTTPRequest, HTTPResponse
from swink_testing.conformance import ProviderConformance
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

RECORDED = Path(__file__).parents[1] / "src/swink_provider_hooli/recordings/hello/body.sse"


class TestHooli(ProviderConformance):
    provider = "hooli"


async def test_a_refused_token_is_read_again_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("stale\n", "utf-8")
    monkeypatch.setenv("HOOLI_TOKEN_FILE", str(file))
    monkeypatch.setenv("HOOLI_COST_CENTRE", "nucleus")

    class RenewedMeanwhile(MemoryHTTPClient):
        async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
            file.write_text("fresh\n", "utf-8")
            return await super().send(request, connect_timeout)

    refused, answer = MemoryResponse([b"{}"], 401), MemoryResponse([RECORDED.read_bytes()])
    http = RenewedMeanwhile(refused, answer)
    async with swink.Client(http=http) as client:
        message = await client.complete("hooli/nucleus-2", "Hello?")
    assert message.text == "Hello from Hooli!"
    sent = [request.headers for request in http.requests]
    assert [headers["Authorization"] for headers in sent] == ["Bearer stale", "Bearer fresh"]
    assert sent[0]["X-Hooli-Cost-Centre"] == "nucleus"


async def test_a_file_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOLI_TOKEN_FILE", "/nowhere/token")
    async with swink.Client(http=MemoryHTTPClient()) as client:
        with pytest.raises(swink.AuthenticationError, match="/nowhere/token"):
            await client.complete("hooli/nucleus-2", "Hello?")
