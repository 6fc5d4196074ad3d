"""Vendors' batch APIs on loopback, as strict as their documentation."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from vendor_server import USAGE, VendorServer, expect

from swink_recorder.loopback import Exchange


class OpenAIServer(VendorServer):
    """https://platform.openai.com/docs/api-reference/batch."""

    path = "/v1/batches"

    def answered(self, exchange: Exchange) -> bytes:
        method, path = exchange.method, exchange.path
        if (method, path) == ("POST", "/v1/files"):
            return self._upload(exchange)
        if (method, path) == ("POST", self.path):
            return json.dumps(self.begun(json.loads(exchange.body))).encode()
        if method == "POST" and (found := re.fullmatch(f"{self.path}/(.+)/cancel", path)):
            self.batches[found[1]]["cancelled"] = True
            return json.dumps(self.told(self.batches[found[1]], False)).encode()
        if (method, path) == ("GET", self.path):
            return json.dumps(self.listed(exchange.query)).encode()
        if method == "GET" and (found := re.fullmatch(f"{self.path}/(.+)", path)):
            return json.dumps(self.told(*self.look(found[1]))).encode()
        found = re.fullmatch("/v1/files/(.+)/content", path)
        expect(method == "GET" and found, "no such endpoint")
        assert found is not None
        return self.files[found[1]]

    def listed(self, query: dict[str, str]) -> dict[str, Any]:
        """List batches, the newest first, one a page."""
        expect(int(query["limit"]) <= 100, "too many")
        newest = [*self.batches][::-1]
        at = newest.index(query["after"]) + 1 if "after" in query else 0
        data = [self.told(self.batches[id], False) for id in newest[at : at + 1]]
        return {"object": "list", "data": data, "has_more": at + 1 < len(newest)}

    def _upload(self, exchange: Exchange) -> bytes:
        kind = exchange.headers["content-type"]
        expect(kind.startswith("multipart/form-data; boundary="), "no form")
        parts = exchange.body.split(b"--" + kind.partition("boundary=")[2].encode())
        expect(parts[-1] == b"--\r\n", "a form without an end")
        named = dict(_part(part) for part in parts[1:-1])
        expect(named.keys() >= {"purpose", "file"}, "a part is missing")
        expect(named["purpose"] == b"batch", "no purpose")
        id = f"file-{len(self.files) + 1}"
        self.files[id] = named["file"]
        told = {
            "id": id, "object": "file", "purpose": "batch", "bytes": len(named["file"]),
            "created_at": 1, "filename": "rows.jsonl", "sample_type": "batch_request",
            "source": "upload",
        }  # fmt: skip
        return json.dumps(told).encode()

    def begun(self, asked: dict[str, Any]) -> dict[str, Any]:
        expect(asked["completion_window"] == "24h", "no window")
        expect(asked["endpoint"] == "/v1/chat/completions", "another endpoint")
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        expect(all(line["url"] == asked["endpoint"] for line in lines), "an url that differs")
        expect(all(line["method"] == "POST" for line in lines), "a method that is none")
        expect(len({line["body"]["model"] for line in lines}) == 1, "several models in a file")
        return self.told(self._batch(lines, asked), False)

    def _batch(self, lines: list[dict[str, Any]], asked: dict[str, Any]) -> dict[str, Any]:
        kept = asked.get("metadata") or {}
        expect(len(kept) <= 16 and all(len(value) <= 512 for value in kept.values()), "metadata")
        expect(not any("stream" in line["body"] for line in lines), "a stream in a batch")
        said = [(line["custom_id"], line["body"]["messages"][-1]["content"]) for line in lines]
        batch = self.begin(said)
        batch["metadata"] = kept
        return batch

    def told(self, batch: dict[str, Any], ended: bool) -> dict[str, Any]:
        rejected = ended and self.rejects
        files = self._result_files(batch) if ended and not rejected else [None, None]
        status = "cancelled" if batch["cancelled"] else "completed" if ended else "in_progress"
        why = {"code": "empty_file", "message": self.rejects, "param": None, "line": None}
        return {
            "id": batch["id"],
            "metadata": batch["metadata"],
            "status": "failed" if rejected else status,
            "errors": {"object": "list", "data": [why]} if rejected else None,
            "output_file_id": files[0],
            "error_file_id": files[1],
        }

    def _result_files(self, batch: dict[str, Any]) -> list[str]:
        good, bad = [], []
        for id, prompt in self.results(batch):
            message = {"role": "assistant", "content": f"answer to {prompt}"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            body: dict[str, Any] = {
                "id": "c", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [choice], "usage": USAGE,
            }  # fmt: skip
            status = 200
            if prompt.endswith("bad"):
                status, body = 400, {"error": {"message": "bad", "type": "invalid_request_error"}}
            response = {"status_code": status, "request_id": "r", "body": body}
            line = json.dumps({"id": "l", "custom_id": id, "response": response, "error": None})
            (good if status == 200 else bad).append(line)
        names = [f"out-{batch['id']}", f"err-{batch['id']}"]
        for name, lines in zip(names, (good, bad), strict=True):
            self.files[name] = "\n".join(lines).encode()
        return names


class MistralServer(OpenAIServer):
    """https://docs.mistral.ai/api/#tag/batch."""

    path = "/v1/batch/jobs"

    def begun(self, asked: dict[str, Any]) -> dict[str, Any]:
        expect(asked["model"] and asked["endpoint"] == "/v1/chat/completions", "no endpoint")
        [file] = asked["input_files"]
        lines = [json.loads(line) for line in self.files[file].splitlines()]
        expect(all(line.keys() == {"custom_id", "body"} for line in lines), "other fields")
        return self.told(self._batch(lines, asked), False)

    def listed(self, query: dict[str, str]) -> dict[str, Any]:
        """List jobs, the newest first, one a page of a hundred."""
        expect(int(query["page_size"]) <= 100, "too many")
        newest = [self.told(batch, False) for batch in [*self.batches.values()][::-1]]
        page = int(query["page"])
        return {"object": "list", "data": newest[page : page + 1], "total": len(newest) * 100}

    def told(self, batch: dict[str, Any], ended: bool) -> dict[str, Any]:
        rejected = ended and self.rejects
        files = self._result_files(batch) if ended and not rejected else [None, None]
        status = "CANCELLED" if batch["cancelled"] else "SUCCESS" if ended else "RUNNING"
        errors = [{"message": self.rejects, "count": 1}] if rejected else []
        total = len(batch["requests"])
        return {
            "id": batch["id"], "object": "batch", "input_files": ["file-1"],
            "status": "FAILED" if rejected else status,
            "endpoint": "/v1/chat/completions", "errors": errors, "created_at": 1,
            "total_requests": total, "completed_requests": total if ended else 0,
            "succeeded_requests": total if ended else 0, "failed_requests": 0,
            "output_file": files[0], "error_file": files[1], "metadata": batch["metadata"],
        }  # fmt: skip


class AnthropicServer(VendorServer):
    """https://platform.claude.com/docs/en/api/creating-message-batches."""

    path = "/v1/messages/batches"

    def is_authorised(self, exchange: Exchange) -> bool:
        headers = exchange.headers
        is_dated = re.fullmatch(r"20\d\d-\d\d-\d\d", headers.get("anthropic-version", ""))
        has_key = headers.get("x-api-key") == "key" or super().is_authorised(exchange)
        return has_key and is_dated is not None

    def answered(self, exchange: Exchange) -> bytes:
        method, path = exchange.method, exchange.path
        if (method, path) == ("POST", self.path):
            asked = json.loads(exchange.body)
            expect(asked.keys() == {"requests"}, "other fields")
            rows = asked["requests"]
            expect(all(row.keys() == {"custom_id", "params"} for row in rows), "other fields")
            params = [row["params"] for row in rows]
            expect(all(each["max_tokens"] and each["model"] for each in params), "no max_tokens")
            expect(not any("stream" in each for each in params), "a stream in a batch")
            said = [(r["custom_id"], _text(r["params"]["messages"][-1]["content"])) for r in rows]
            return json.dumps(self._told(self.begin(said), False)).encode()
        if found := re.fullmatch(f"{self.path}/([^/]+)/cancel", path):
            expect(method == "POST", "no such endpoint")
            self.batches[found[1]]["cancelled"] = True
            return json.dumps(self._told(self.batches[found[1]], False)).encode()
        expect(method == "GET", "no such endpoint")
        if path == self.path:
            newest = [*self.batches][::-1]
            after = exchange.query.get("after_id")
            at = newest.index(after) + 1 if after else 0
            page = newest[at : at + 1]
            data = [self._told(*self.look(id)) for id in page]
            more, last = at + 1 < len(newest), page[-1] if page else None
            return json.dumps({"data": data, "has_more": more, "last_id": last}).encode()
        if found := re.fullmatch(f"{self.path}/([^/]+)/results", path):
            batch = self.batches[found[1]]
            expect(batch["looks"] >= self.polls or batch["cancelled"], "it has not ended")
            return b"\n".join(self._result(*row) for row in self.results(batch))
        found = re.fullmatch(f"{self.path}/([^/]+)", path)
        assert found is not None
        return json.dumps(self._told(*self.look(found[1]))).encode()

    def _told(self, batch: dict[str, Any], ended: bool) -> dict[str, Any]:
        status = "ended" if ended else "canceling" if batch["cancelled"] else "in_progress"
        results = f"{self.url}{self.path}/{batch['id']}/results" if ended else None
        return {
            "id": batch["id"], "type": "message_batch", "processing_status": status,
            "results_url": results, "archived_at": None,
            "created_at": datetime.fromtimestamp(batch["at"], UTC).isoformat(),
            "request_counts": {
                "processing": 0 if ended else len(batch["requests"]),
                "succeeded": len(batch["requests"]) if ended else 0,
                "errored": 0, "canceled": 0, "expired": 0,
            },
        }  # fmt: skip

    def _result(self, id: str, prompt: str) -> bytes:
        message: dict[str, Any] = {
            "id": "msg", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": f"answer to {prompt}"}],
            "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1_000_000, "output_tokens": 0},
        }  # fmt: skip
        result: dict[str, Any] = {"type": "succeeded", "message": message}
        if prompt.endswith("bad"):
            why = {"type": "invalid_request_error", "message": "bad"}
            result = {"type": "errored", "error": {"type": "error", "error": why}}
        return json.dumps({"custom_id": id, "result": result}).encode()


class GeminiServer(VendorServer):
    """https://ai.google.dev/gemini-api/docs/batch-api."""

    def is_authorised(self, exchange: Exchange) -> bool:
        return exchange.headers.get("x-goog-api-key") == "key"

    def answered(self, exchange: Exchange) -> bytes:
        method, path = exchange.method, exchange.path
        if re.fullmatch("/v1beta/models/[^/:]+:batchGenerateContent", path):
            expect(method == "POST", "no such endpoint")
            batch = json.loads(exchange.body)["batch"]
            rows = batch["inputConfig"]["requests"]["requests"]
            said = [
                (row["metadata"]["key"], row["request"]["contents"][-1]["parts"][0]["text"])
                for row in rows
            ]
            begun = self.begin(said)
            begun["name"] = batch["displayName"]
            return json.dumps({"name": f"batches/{begun['id']}"}).encode()
        if (method, path) == ("GET", "/v1beta/batches"):
            ids = [*self.batches]
            at = int(exchange.query.get("pageToken") or 0)
            operations = [
                {"name": f"batches/{id}", "metadata": {"displayName": self.batches[id]["name"]}}
                for id in ids[at : at + 1]
            ]
            more = {"nextPageToken": str(at + 1)} if at + 1 < len(ids) else {}
            return json.dumps(
                {**({"operations": operations} if operations else {}), **more}
            ).encode()
        if found := re.fullmatch("/v1beta/batches/([^/:]+):cancel", path):
            expect(method == "POST", "no such endpoint")
            self.batches[found[1]]["cancelled"] = True
            return b"{}"
        found = re.fullmatch("/v1beta/batches/([^/:]+)", path)
        expect(method == "GET" and found, "no such endpoint")
        assert found is not None
        batch, ended = self.look(found[1])
        state = "CANCELLED" if batch["cancelled"] else "SUCCEEDED" if ended else "RUNNING"
        about: dict[str, Any] = {"state": f"BATCH_STATE_{state}", "displayName": batch["name"]}
        told: dict[str, Any] = {"name": f"batches/{batch['id']}", "metadata": about}
        if ended and self.rejects:
            told |= {"done": True, "error": {"code": 3, "message": self.rejects}}
        elif ended:
            results = [self._result(*row) for row in self.results(batch)]
            about["output"] = {"inlinedResponses": {"inlinedResponses": results}}
            told |= {"done": True, "response": about["output"]}
        return json.dumps(told).encode()

    def _result(self, id: str, prompt: str) -> dict[str, Any]:
        if prompt.endswith("bad"):
            return {"metadata": {"key": id}, "error": {"code": 3, "message": "bad"}}
        parts = [{"text": f"answer to {prompt}"}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        usage = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 0}
        response = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}
        return {"metadata": {"key": id}, "response": response}


class BedrockServer(VendorServer):
    """Bedrock and S3, at one address: https://docs.aws.amazon.com/bedrock/latest/userguide/."""

    def is_authorised(self, exchange: Exchange) -> bool:
        signature = exchange.headers.get("authorization", "")
        service = "s3" if exchange.path.startswith("/bucket/") else "bedrock"
        return f"/us-east-1/{service}/aws4_request" in signature

    def answered(self, exchange: Exchange) -> bytes:
        method, path = exchange.method, unquote(exchange.path)
        if path.startswith("/bucket/"):
            digest = hashlib.sha256(exchange.body).hexdigest()
            expect(exchange.headers["x-amz-content-sha256"] == digest, "another digest")
            if method == "PUT":
                self.files[f"s3:/{path}"] = exchange.body
                return b""
            return self.files[f"s3:/{path}"]
        if (method, path) == ("GET", "/model-invocation-jobs"):
            named = [
                {
                    "jobArn": f"arn:aws:bedrock:::job/{batch['id']}",
                    "jobName": batch["asked"]["jobName"],
                }
                for batch in self.batches.values()
                if exchange.query["nameContains"] in batch["asked"]["jobName"]
            ]
            return json.dumps({"invocationJobSummaries": named}).encode()
        if path == "/model-invocation-job":
            asked = json.loads(exchange.body)
            wanted = {"jobName", "roleArn", "modelId", "inputDataConfig", "outputDataConfig"}
            expect(asked.keys() >= wanted, "a field is missing")
            expect(asked["modelInvocationType"] == "Converse", "another form")
            source = asked["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
            lines = [json.loads(line) for line in self.files[source].splitlines()]
            batch = self.begin(
                [
                    (x["recordId"], x["modelInput"]["messages"][-1]["content"][0]["text"])
                    for x in lines
                ]
            )
            batch["asked"] = asked
            return json.dumps({"jobArn": f"arn:aws:bedrock:::job/{batch['id']}"}).encode()
        found = re.fullmatch(r"/model-invocation-job/arn:aws:bedrock:::job/([^/]+)(/stop)?", path)
        assert found is not None
        if found[2]:
            expect(method == "POST", "no such endpoint")
            self.batches[found[1]]["cancelled"] = True
            return b"{}"
        batch, ended = self.look(found[1])
        told = {name: batch["asked"][name] for name in ("inputDataConfig", "outputDataConfig")}
        status = "Stopped" if batch["cancelled"] else "Completed" if ended else "InProgress"
        if ended and self.rejects:
            return json.dumps({**told, "status": "Failed", "message": self.rejects}).encode()
        if ended:
            folder = told["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
            name = told["inputDataConfig"]["s3InputDataConfig"]["s3Uri"].rpartition("/")[2]
            lines = [self._result(*row) for row in self.results(batch)]
            self.files[f"{folder}{batch['id']}/{name}.out"] = b"\n".join(lines)
        return json.dumps({**told, "status": status}).encode()

    def _result(self, id: str, prompt: str) -> bytes:
        if prompt.endswith("bad"):
            why = {"errorCode": 400, "errorMessage": "bad"}
            return json.dumps({"recordId": id, "modelInput": {}, "error": why}).encode()
        message = {"role": "assistant", "content": [{"text": f"answer to {prompt}"}]}
        usage = {"inputTokens": 1_000_000, "outputTokens": 0, "totalTokens": 1_000_000}
        said = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}
        return json.dumps({"recordId": id, "modelInput": {}, "modelOutput": said}).encode()


def _part(part: bytes) -> tuple[str, bytes]:
    head, _, body = part.removesuffix(b"\r\n").partition(b"\r\n\r\n")
    return re.findall(r'name="(\w+)"', head.decode())[0], body


def _text(content: Any) -> str:
    return content if isinstance(content, str) else str(content[-1]["text"])
