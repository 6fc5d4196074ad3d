"""Where the rows of a batch go: S3 of Bedrock's region, or the address that is set."""

from __future__ import annotations

import pytest

from swink_core import UsageError
from swink_core.providers import HTTPRequest
from swink_provider_bedrock.batches import BedrockBatches

ROWS = [("1", b"{}")]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWINK_BEDROCK_BATCH_S3", "s3://rows/folder")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)


def first_request(address: str) -> HTTPRequest:
    like = HTTPRequest(f"{address}/model/us.amazon.nova-2/converse")
    request: HTTPRequest = next(BedrockBatches().submit(like, ROWS, "0" * 24))
    return request


@pytest.mark.parametrize(
    ("bedrock", "s3"),
    [
        ("bedrock-runtime.us-east-1.amazonaws.com", "us-east-1.amazonaws.com"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1.amazonaws.com"),
        ("bedrock-runtime.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1.amazonaws.eu"),
        ("vpce-1-a.bedrock-runtime.eu-west-1.vpce.amazonaws.com", "eu-west-1.amazonaws.com"),
    ],
)
def test_rows_go_to_s3_of_the_region(bedrock: str, s3: str) -> None:
    url = first_request(f"https://{bedrock}").url
    assert url.startswith(f"https://rows.s3.{s3}/folder/swink-")


@pytest.mark.parametrize("bedrock", ["http://localhost:8080", "https://bedrock.example.com"])
def test_an_address_of_ones_own_wants_that_of_s3(
    bedrock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="region of S3"):
        first_request(bedrock)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://localhost:9000/")
    assert first_request(bedrock).url.startswith("http://localhost:9000/rows/folder/swink-")
