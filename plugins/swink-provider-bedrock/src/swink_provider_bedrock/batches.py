"""Bedrock's batch inference, for swink-batch: rows and answers in S3, at half the price.

`SWINK_BEDROCK_BATCH_S3` names a folder of a bucket (`s3://bucket/folder`) for rows and answers.
`SWINK_BEDROCK_BATCH_ROLE` names the IAM role with which Bedrock reads and writes this folder.

The methods do no I/O: each is a generator that yields the requests to send, receives the bodies of
the responses, and returns the parsed result. Sources:
https://docs.aws.amazon.com/bedrock/latest/userguide/batch-inference.html,
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelInvocationJob.html and
https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import msgspec

from swink_core import Failure, ProviderFailure, UsageError
from swink_core.providers import HTTPRequest

__all__ = ["BedrockBatches"]

S3_ENV = "SWINK_BEDROCK_BATCH_S3"

ROLE_ENV = "SWINK_BEDROCK_BATCH_ROLE"

S3_ENDPOINT_ENV = "AWS_ENDPOINT_URL_S3"
"""The environment variable with a URL that replaces S3's default URL; all AWS tools read it.

With this variable, the bucket is part of the URL's path, not of the host name.
"""

NAME = "swink-"
"""The beginning of a job's name, before the submission's token."""

ENDED = frozenset({"Completed", "PartiallyCompleted", "Failed", "Stopped", "Expired"})

Says: TypeAlias = Generator[HTTPRequest, bytes, Any]

_LIKE = re.compile(r"(.*)/model/([^/]+)/converse$")
_HOST = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?(.+)")


class BedrockBatches:
    """Submit and read batch inference jobs of one model; rows have Converse's format.

    `like` is the request that would send a single row outside a batch.

    A batch costs half the price of on-demand inference, for all models that support batches:
    https://docs.aws.amazon.com/bedrock/latest/userguide/capacity-limits-cost-optimization.html.
    """

    most_requests = 50_000
    most_bytes = 190 * 2**20
    share = 0.5

    def submit(self, like: HTTPRequest, rows: Sequence[tuple[str, bytes]], token: str) -> Says:
        """Put the rows into S3 and start a job, with `token` in its name; return its ARN."""
        lines = b"".join(
            msgspec.json.encode({"recordId": id, "modelInput": msgspec.Raw(body)}) + b"\n"
            for id, body in rows
        )
        name = f"{NAME}{token}"
        folder = _setting(S3_ENV).rstrip("/")
        source = f"{folder}/{name}.jsonl"
        yield _s3(like, source, "PUT", lines)
        base, model = _parts(like)
        job = {
            "jobName": name,
            "clientRequestToken": name,  # a repeated request creates no second job
            "roleArn": _setting(ROLE_ENV),
            "modelId": unquote(model),
            "modelInvocationType": "Converse",
            "inputDataConfig": {"s3InputDataConfig": {"s3Uri": source}},
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": f"{folder}/"}},
        }
        headers = {"Content-Type": "application/json"}
        made = yield HTTPRequest(f"{base}/model-invocation-job", msgspec.json.encode(job), headers)
        return msgspec.json.decode(made)["jobArn"]

    def find(self, like: HTTPRequest, intent: Any) -> Says:
        """Find the job of an earlier submission by the token in the job's name.

        Source:
        https://docs.aws.amazon.com/bedrock/latest/APIReference/API_ListModelInvocationJobs.html.
        """
        base, _ = _parts(like)
        name = f"{NAME}{intent.token}"
        query = f"nameContains={name}"
        found: list[str] = []
        while query and not found:
            address = f"{base}/model-invocation-jobs?{query}"
            page = msgspec.json.decode((yield HTTPRequest(address, method="GET")))
            jobs = page.get("invocationJobSummaries") or []
            found = [job["jobArn"] for job in jobs if job["jobName"] == name]
            more = page.get("nextToken")
            query = f"nameContains={name}&nextToken={quote(more, safe='')}" if more else ""
        return found

    def poll(self, like: HTTPRequest, id: str) -> Says:
        """Check a job; return the S3 locations of the answers, or `None` while it is running.

        Raises ProviderFailure if the job has failed.
        """
        job = msgspec.json.decode((yield _job(like, id)))
        if job["status"] not in ENDED:
            return None
        if job["status"] == "Failed":
            raise ProviderFailure(Failure("request", message=job.get("message")))
        if job["status"] not in ("Completed", "PartiallyCompleted"):
            return []
        source = job["inputDataConfig"]["s3InputDataConfig"]["s3Uri"].rpartition("/")[2]
        folder = job["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
        return [f"{folder}{id.rpartition('/')[2]}/{source}.out"]

    def results(self, like: HTTPRequest, id: str, sources: Sequence[str]) -> Says:
        """Return the answers of a job. A row that is missing in the result was not answered."""
        found = []
        for source in sources:
            lines = yield _s3(like, source, "GET")
            found += [_result(line) for line in lines.splitlines() if line.strip()]
        return found

    def cancel(self, like: HTTPRequest, id: str) -> Says:
        """Cancel a job. Answers that are already complete stay in S3 and are not fetched."""
        yield _job(like, id, "/stop", "POST")


def _setting(name: str) -> str:
    if not (value := os.environ.get(name)):
        raise UsageError(
            f"{name} is not set",
            resolution=f"Bedrock's batches go through S3: set {S3_ENV} to s3://bucket/folder, and "
            f"{ROLE_ENV} to the ARN of a role that may read and write there.",
        )
    return value


def _parts(like: HTTPRequest) -> tuple[str, str]:
    found = _LIKE.match(like.url)
    assert found is not None
    return found[1].replace("//bedrock-runtime", "//bedrock"), found[2]


def _job(like: HTTPRequest, id: str, verb: str = "", method: str = "GET") -> HTTPRequest:
    base, _ = _parts(like)
    return HTTPRequest(f"{base}/model-invocation-job/{quote(id, safe='')}{verb}", method=method)


def _s3(like: HTTPRequest, uri: str, method: str, body: bytes = b"") -> HTTPRequest:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    if endpoint := os.environ.get(S3_ENDPOINT_ENV):
        url = f"{endpoint.rstrip('/')}/{bucket}/{key}"
    elif (host := _HOST.search(urlsplit(like.url).hostname or "")) is not None:
        url = f"https://{bucket}.s3.{host[1]}.{host[2]}/{key}"
    else:
        raise UsageError(
            "the region of S3 cannot be derived from the custom base URL of Bedrock",
            resolution=f"Set {S3_ENDPOINT_ENV} to the address of S3.",
        )
    sent = {"x-amz-content-sha256": hashlib.sha256(body).hexdigest()}
    return HTTPRequest(url, body, sent, method)


def _result(line: bytes) -> tuple[str, int, bytes]:
    data = msgspec.json.decode(line)
    if "modelOutput" in data:
        return data["recordId"], 200, msgspec.json.encode(data["modelOutput"])
    error = data.get("error", {})
    why = {"message": error.get("errorMessage", "it was not answered")}
    return data["recordId"], error.get("errorCode", 500), msgspec.json.encode(why)
