"""The vendors' own SDKs before the servers of their batch APIs.

Each one hands over rows, looks until the batch has ended, fetches what came of it, and cancels
another batch. `make counterparts` has the newest of them do it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec
from attrs import define
from vendor_server import VendorServer

from swink_recorder.loopback import Exchange

Rows = list[tuple[str, dict[str, Any]]]
"""Ids, and the bodies of the requests that ask for them."""


@define
class Seen:
    """The results of an SDK for a batch: texts and failures by the ids of rows, and the status of
    the cancelled batch.
    """

    texts: dict[str, str]
    refused: list[str]
    cancelled: str


Drive = Callable[[str, str, Rows], Seen]


def openai(url: str, model: str, rows: Rows) -> Seen:
    import openai

    seen = Seen({}, [], "")
    with openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:

        def begin() -> str:
            lines = [
                {"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}
                for id, body in rows
            ]
            file = client.files.create(file=("rows.jsonl", _in_lines(lines)), purpose="batch")
            return client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
            ).id

        id = begin()
        while (batch := client.batches.retrieve(id)).status != "completed":
            assert batch.status in ("validating", "in_progress")
        for file in (batch.output_file_id, batch.error_file_id):
            assert file is not None
            for line in map(json.loads, client.files.content(file).content.splitlines()):
                response = line["response"]
                if response["status_code"] == 200:
                    answer = openai.types.chat.ChatCompletion.model_validate(response["body"])
                    seen.texts[line["custom_id"]] = answer.choices[0].message.content or ""
                else:
                    seen.refused.append(line["custom_id"])
        client.batches.cancel(other := begin())
        seen.cancelled = client.batches.retrieve(other).status
    return seen


def mistral(url: str, model: str, rows: Rows) -> Seen:
    from mistralai.client import Mistral

    seen = Seen({}, [], "")
    with Mistral(api_key="key", server_url=url) as client:

        def begin() -> str:
            lines = [{"custom_id": id, "body": body} for id, body in rows]
            held: Any = {"file_name": "rows.jsonl", "content": _in_lines(lines)}
            file = client.files.upload(file=held, purpose="batch")
            return client.batch.jobs.create(
                input_files=[file.id], model=model, endpoint="/v1/chat/completions"
            ).id

        id = begin()
        while (job := client.batch.jobs.get(job_id=id)).status != "SUCCESS":
            assert job.status in ("QUEUED", "RUNNING")
        for file in (job.output_file, job.error_file):
            assert isinstance(file, str)
            for line in map(json.loads, client.files.download(file_id=file).read().splitlines()):
                response = line["response"]
                if response["status_code"] == 200:
                    said = response["body"]["choices"][0]["message"]["content"]
                    seen.texts[line["custom_id"]] = said
                else:
                    seen.refused.append(line["custom_id"])
        client.batch.jobs.cancel(job_id=(other := begin()))
        seen.cancelled = str(client.batch.jobs.get(job_id=other).status)
    return seen


def anthropic(url: str, model: str, rows: Rows) -> Seen:
    import anthropic

    seen = Seen({}, [], "")
    with anthropic.Anthropic(base_url=url, api_key="key", max_retries=0) as client:

        def begin() -> str:
            requests: Any = [{"custom_id": id, "params": params} for id, params in rows]
            return client.messages.batches.create(requests=requests).id

        id = begin()
        while (batch := client.messages.batches.retrieve(id)).processing_status != "ended":
            assert batch.processing_status == "in_progress"
        for each in client.messages.batches.results(id):
            if each.result.type == "succeeded":
                [block] = each.result.message.content
                assert block.type == "text"
                seen.texts[each.custom_id] = block.text
            else:
                assert each.result.type == "errored"
                seen.refused.append(each.custom_id)
        client.messages.batches.cancel(other := begin())
        seen.cancelled = client.messages.batches.retrieve(other).processing_status
    return seen


def gemini(url: str, model: str, rows: Rows) -> Seen:
    from google import genai
    from google.genai import types

    seen = Seen({}, [], "")
    plain = {"verify": False, "ssl": False}  # reading certificates takes longest of all
    options = types.HttpOptions(
        base_url=url, api_version="v1beta", client_args=plain, async_client_args=plain
    )
    client = genai.Client(api_key="key", http_options=options)

    def begin() -> str:
        source = [
            types.InlinedRequest(
                contents=body["contents"],
                metadata={"key": id},
            )
            for id, body in rows
        ]
        config = types.CreateBatchJobConfig(display_name="swink")
        return str(client.batches.create(model=model, src=source, config=config).name)

    name = begin()
    while (job := client.batches.get(name=name)).state != types.JobState.JOB_STATE_SUCCEEDED:
        assert job.state == types.JobState.JOB_STATE_RUNNING
    assert job.dest is not None
    for each in job.dest.inlined_responses or ():
        assert each.metadata is not None
        if each.response is not None:
            seen.texts[each.metadata["key"]] = each.response.text or ""
        else:
            assert each.error is not None
            seen.refused.append(each.metadata["key"])
    client.batches.cancel(name=(other := begin()))
    seen.cancelled = str(client.batches.get(name=other).state)
    return seen


def bedrock(url: str, model: str, rows: Rows) -> Seen:
    from botocore.config import Config
    from botocore.session import Session

    seen = Seen({}, [], "")
    plain = Config(
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        retries={"max_attempts": 0},
    )
    session = Session()
    s3, client = (
        session.create_client(name, region_name="us-east-1", endpoint_url=url, config=plain)
        for name in ("s3", "bedrock")
    )

    def begin() -> str:
        lines = _in_lines([{"recordId": id, "modelInput": body} for id, body in rows])
        name = f"swink-{hashlib.sha256(lines).hexdigest()[:32]}"
        s3.put_object(Bucket="bucket", Key=f"folder/{name}.jsonl", Body=lines)
        made = client.create_model_invocation_job(
            jobName=name,
            clientRequestToken=name,
            roleArn="arn:aws:iam::1:role/batch",
            modelId=model,
            modelInvocationType="Converse",
            inputDataConfig={"s3InputDataConfig": {"s3Uri": f"s3://bucket/folder/{name}.jsonl"}},
            outputDataConfig={"s3OutputDataConfig": {"s3Uri": "s3://bucket/folder/"}},
        )
        return str(made["jobArn"])

    arn = begin()
    while (job := client.get_model_invocation_job(jobIdentifier=arn))["status"] != "Completed":
        assert job["status"] == "InProgress"
    source = job["inputDataConfig"]["s3InputDataConfig"]["s3Uri"].rpartition("/")[2]
    key = f"folder/{arn.rpartition('/')[2]}/{source}.out"
    for line in s3.get_object(Bucket="bucket", Key=key)["Body"].read().splitlines():
        record = json.loads(line)
        if "modelOutput" in record:
            said = record["modelOutput"]["output"]["message"]["content"][0]["text"]
            seen.texts[record["recordId"]] = said
        else:
            seen.refused.append(record["recordId"])
    client.stop_model_invocation_job(jobIdentifier=(other := begin()))
    seen.cancelled = client.get_model_invocation_job(jobIdentifier=other)["status"]
    return seen


SDKS: dict[str, tuple[Drive, str]] = {
    "openai": (openai, "cancelled"),
    "mistral": (mistral, "CANCELLED"),
    "anthropic": (anthropic, "ended"),
    "gemini": (gemini, "JobState.JOB_STATE_CANCELLED"),
    "bedrock": (bedrock, "Stopped"),
}
"""By provider: the function that drives its SDK, and the status that it reports for a cancelled
batch.
"""


def rows_of(server: VendorServer) -> Rows:
    """Return the rows of the first batch that a server was handed."""
    for asked in map(body_of, server.exchanges):
        if "lines" in asked:
            lines = asked["lines"]
            return [(x.get("custom_id") or x["recordId"], x.get("body") or x["modelInput"])
                    for x in lines]  # fmt: skip
        if "requests" in asked:
            return [(row["custom_id"], row["params"]) for row in asked["requests"]]
        if "batch" in asked:
            rows = asked["batch"]["inputConfig"]["requests"]["requests"]
            return [(row["metadata"]["key"], row["request"]) for row in rows]
    raise AssertionError("no batch")


_MARK = re.compile(r"[-_]?(?<![0-9a-f])[0-9a-f]{24}(?:[0-9a-f]{8})?(?![0-9a-f])")
"""The mark of a submission, by which swink finds one again whose reply was lost."""


def told(server: VendorServer) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the different requests to a server, without the numbers and marks of batches."""
    found = {}
    for exchange in server.exchanges:
        path = re.sub(r"((?:batch_|file-))\d+", r"\1N", _MARK.sub("", unquote(exchange.path)))
        text = _MARK.sub("", json.dumps(body_of(exchange), sort_keys=True))
        data = json.loads(re.sub(r"(file-)\d+", r"\1N", text))
        if data.get("metadata") == {"swink": ""}:
            del data["metadata"]
        body = json.dumps(data, sort_keys=True)
        found[exchange.method, path, body] = (exchange.method, path, data)
    return [found[key] for key in sorted(found)]


def body_of(exchange: Exchange) -> dict[str, Any]:
    """Return a request's body as JSON data."""
    kind = exchange.headers.get("content-type", "")
    if kind.startswith("multipart/"):
        parts = exchange.body.split(b"--" + kind.partition("boundary=")[2].encode())
        named = {part.split(b'name="')[1].split(b'"')[0].decode(): part for part in parts[1:-1]}
        purpose = named["purpose"].partition(b"\r\n\r\n")[2].strip().decode()
        return {"purpose": purpose, "lines": _lines(named["file"].partition(b"\r\n\r\n")[2])}
    if exchange.method == "PUT":
        return {"lines": _lines(exchange.body)}
    return dict(json.loads(exchange.body)) if exchange.body else {}


def _lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def _in_lines(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
