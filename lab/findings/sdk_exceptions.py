"""Print which exception OpenAI's SDK raises for each failure, directly and through the gateway.

    python -m lab.findings.sdk_exceptions

A server on loopback fails as the vendor does. Applications choose what to do by the class of the
exception, so both columns should be equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import openai

from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.command_line import clean_environment, swink_command

MODEL = "openai/gpt-5.4-mini"

FAILURES: dict[str, tuple[int, dict[str, str]]] = {
    "wrong key": (401, {"code": "invalid_api_key", "message": "Incorrect API key provided."}),
    "no permission": (403, {"code": "forbidden", "message": "You are not allowed to do this."}),
    "unknown model": (404, {"code": "model_not_found", "message": "The model does not exist."}),
    "context window": (
        400,
        {"code": "context_length_exceeded", "message": "Your input exceeds the context window."},
    ),
    "rate limit": (429, {"code": "rate_limit_exceeded", "message": "Rate limit reached."}),
    "no quota": (429, {"code": "insufficient_quota", "message": "You exceeded your quota."}),
    "server error": (500, {"code": "server_error", "message": "The server had an error."}),
    "overloaded": (503, {"code": "overloaded", "message": "The engine is overloaded."}),
}


class FailingVendor(LoopbackServer):
    """Answers every request with the failure that is set."""

    failure = FAILURES["wrong key"]

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request."""
        status, error = self.failure
        await exchange.start(status, {"Content-Type": "application/json"})
        await exchange.write(msgspec.json.encode({"error": {"type": error["code"], **error}}))
        await exchange.end()


@contextmanager
def gateway(vendor: str) -> Iterator[str]:
    """Run `swink gateway` before a vendor, and yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **clean_environment(Path(folder)),
            "OPENAI_API_KEY": "test",
            "OPENAI_BASE_URL": vendor,
            "PYTHONUNBUFFERED": "1",
        }
        process = subprocess.Popen(
            swink_command("gateway", "--port", "0"),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    yield found[0]
                    break
            else:
                sys.exit("the gateway did not start")
        finally:
            process.terminate()
            process.wait()


def raised(base_url: str, model: str, streamed: bool) -> str:
    """Make one call, and name the exception with its status."""
    client = openai.OpenAI(base_url=base_url, api_key="test", max_retries=0)
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [
        {"role": "user", "content": "Hi"}
    ]
    try:
        answer = client.chat.completions.create(model=model, messages=messages, stream=streamed)
        if isinstance(answer, openai.Stream):
            for _ in answer:
                pass
    except openai.APIStatusError as error:
        return f"{type(error).__name__} {error.status_code}"
    except openai.OpenAIError as error:
        return type(error).__name__
    return "nothing"


def main() -> None:
    """Print one line for each failure."""
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    with FailingVendor() as vendor, gateway(f"{vendor.url}/v1") as served:
        print(f"{'failure':16} {'':8} {'directly':28} through the gateway")
        for name, failure in FAILURES.items():
            vendor.failure = failure
            for streamed in (False, True):
                directly = raised(f"{vendor.url}/v1", MODEL.partition("/")[2], streamed)
                through = raised(f"{served}/v1", MODEL, streamed)
                kind = "streamed" if streamed else "whole"
                mark = "" if directly == through else "  <- differs"
                print(f"{name:16} {kind:8} {directly:28} {through}{mark}", flush=True)


if __name__ == "__main__":
    main()
