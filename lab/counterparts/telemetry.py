"""Put what swink tells before the tools of others: `telemetry.py` exits with 1 where one of them
does not understand it.

* Phoenix (arize-phoenix, in `.venv-counterparts`) is sent the traces of a replayed recording and
  must show a span of kind LLM with the recording's tokens.
* Prometheus (Debian's) scrapes the metrics of calls of all kinds, and every query of the dashboard
  must return data.
* A cassette must not play for a call with another tool, option or model.

`make counterparts` installs both. Nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import swink
from swink_recorder.recording import Recording, bundled_recordings
from swink_recorder.replay import ReplayServer

ROOT = Path(__file__).resolve().parents[2]
PHOENIX = ROOT / ".venv-counterparts" / "bin" / "phoenix"
PATIENCE = 300.0
"""Seconds that a tool may take to start; Phoenix imports for minutes on a busy machine."""

ANSWER_SECONDS = 90.0
"""Seconds in which a tool that runs must have what it was sent."""


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def get(url: str, **query: str) -> Any:
    """Return the response of an address, as data if it is JSON."""
    if query:
        url += "?" + urllib.parse.urlencode(query)
    with urllib.request.urlopen(url, timeout=30) as answer:
        body = answer.read()
    return json.loads(body) if body[:1] in b"{[" else body


@contextmanager
def running_tool(name: str, url: str, command: list[str], **environ: str) -> Iterator[None]:
    """Start a tool, wait until it answers, and stop it in the end."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, env={**os.environ, **environ}, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    get(url)
                    break
                except (OSError, http.client.HTTPException):  # it does not answer yet, or badly
                    if process.poll() is None and time.monotonic() < deadline:
                        time.sleep(0.5)
                        continue
                    output.seek(0)
                    said = output.read().decode("utf-8", "replace")[-2_000:]
                    raise SystemExit(f"{name} did not start:\n{said}") from None
            print(f"{name} runs", flush=True)
            yield
        finally:
            process.terminate()
            process.wait()


async def eventually(check: Callable[[], list[str]]) -> list[str]:
    """Return the complaints of a check when it has none left or the time is up."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while faults := await asyncio.to_thread(check):
        if time.monotonic() > deadline:
            return faults
        await asyncio.sleep(1.0)
    return []


def _recording() -> Recording:
    folders = bundled_recordings("swink_provider_anthropic")
    return Recording.load(next(folder for folder in folders if folder.name == "text"))


# -- traces --------------------------------------------------------------------------------------


RUN = (
    (None, "invoke_agent", "AGENT"),
    ("invoke_agent", "chat tool", "LLM"),
    ("invoke_agent", "execute_tool _tool", "TOOL"),
)
"""Parent, name and kind of the spans of a tool loop, as Phoenix reads them."""


def _tool() -> str:
    return "done"


async def see_traces(folder: Path) -> list[str]:
    """Return the parts of a recording's call that Phoenix does not show."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    from swink_observer_otel.observer import OTelObserver

    recording = _recording()
    assert recording.message is not None
    assert recording.message.usage is not None
    usage = recording.message.usage
    port, grpc_port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with running_tool("Phoenix", f"{url}/healthz", [str(PHOENIX), "serve"], **settings):
        tracers = TracerProvider()
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{grpc_port}", insecure=True)
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        observer = OTelObserver(tracer_provider=tracers)
        async with ReplayServer() as server, swink.Client(plugins=[observer]) as client:
            there: Any = {"base_url": server.add("case", recording), "api_key": "none"}
            await client.complete(f"anthropic/{recording.model}", "Hi", **there)
            await client.run("echo/tool", "Hi", tools=[_tool]).result()
        tracers.shutdown()
        expected = {
            "llm.model_name": recording.model,
            "llm.token_count.prompt": usage.input,
            "llm.token_count.completion": usage.output,
        }

        def check() -> list[str]:
            spans = get(f"{url}/v1/projects/default/spans")["data"]
            shown = [span for span in spans if span["name"] == f"chat {recording.model}"]
            found = [{k: span["attributes"].get(k) for k in expected} for span in shown]
            if found != [expected]:
                return [f"spans of the call are {found}, not {[expected]}"]
            names = {span["context"]["span_id"]: span["name"] for span in spans}
            tree = {(names.get(s["parent_id"]), s["name"], s["span_kind"]) for s in spans}
            return [f"no {branch} in {tree}" for branch in RUN if branch not in tree]

        return await eventually(check)


# -- metrics -------------------------------------------------------------------------------------


class Rarities:
    """Rare outcomes: `echo/rare` is damaged and has a provider's cache, `echo/again` comes from
    swink's cache, and the cost of `echo/estimated` is an estimate.
    """

    @swink.hookimpl(tryfirst=True)
    def stream(self, model: swink.Model) -> Any:
        """Answer those models."""
        answers = {"rare": self._rare, "again": self._again, "estimated": self._estimated}
        return answers.get(model.id, lambda: None)()

    async def _rare(self) -> AsyncIterator[swink.AssistantMessageEvent]:
        yield swink.Start()
        yield swink.Notice("malformed_frame", "as a server may send it")
        yield swink.TextStart(0)
        for _ in range(4):
            await asyncio.sleep(0.02)
            yield swink.TextDelta(0, "word ")
        yield swink.TextEnd(0)
        usage = swink.Usage(100, 40, cache_read=60, cache_write=10, reasoning=20, reported=True)
        yield swink.Done(swink.StopReason.STOP, usage, swink.Cost(total=0.01))

    async def _again(self) -> AsyncIterator[swink.AssistantMessageEvent]:
        yield swink.Start()
        yield swink.Notice("cache_hit", "")
        yield swink.TextStart(0)
        yield swink.TextDelta(0, "word")
        yield swink.TextEnd(0)
        yield swink.Done(swink.StopReason.STOP)

    async def _estimated(self) -> AsyncIterator[swink.AssistantMessageEvent]:
        yield swink.Start()
        yield swink.TextStart(0)
        yield swink.TextDelta(0, "word")
        yield swink.TextEnd(0)
        yield swink.Done(swink.StopReason.STOP, None, swink.Cost(total=0.01, estimated=True))


CALLS: list[Any] = [
    "echo/echo",
    "echo/slow",
    "echo/flaky",
    "echo/fail-quota-exhausted",
    ["echo/fail-quota-exhausted", "echo/echo"],
    swink.Model("echo", "rare"),
    swink.Model("echo", "again"),
    swink.Model("echo", "estimated"),
]


async def _call_for_ever(client: swink.Client) -> None:
    async def one(model: Any) -> None:
        with suppress(swink.StreamError):  # which is what some of them are for
            await client.complete(model, "one two three")

    while True:
        await asyncio.gather(*(one(model) for model in CALLS))
        await asyncio.sleep(0.2)


def dashboard_queries() -> list[str]:
    """Return the dashboard's queries to Prometheus, with variables filled in."""
    board = json.loads((files("swink_observer_prometheus") / "dashboard.json").read_text("utf-8"))
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    values = {"provider": ".*", "model": ".*", "__rate_interval": "15s"}
    return [re.sub(r"\$(\w+)", lambda name: values[name[1]], expr) for expr in targets]


def has_data(answer: Any) -> bool:
    """Tell whether an answer of Prometheus has a number."""
    values = [float(sample["value"][1]) for sample in answer["data"]["result"]]
    return any(not math.isnan(value) for value in values)


async def see_metrics(folder: Path) -> list[str]:
    """Return the queries of the dashboard for which Prometheus has no data."""
    from prometheus_client import CollectorRegistry, start_http_server

    from swink_observer_prometheus.observer import PrometheusObserver

    registry, port = CollectorRegistry(), free_port()
    served, thread = start_http_server(0, "127.0.0.1", registry)
    target = f"127.0.0.1:{served.server_port}"
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: swink, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    plugins = [PrometheusObserver(registry), Rarities()]
    retry = swink.RetryPolicy(base=0.01)
    with running_tool("Prometheus", f"{url}/-/ready", command):
        async with swink.Client(plugins=plugins, retry=retry, breaker=False) as client:
            calling = asyncio.create_task(_call_for_ever(client))

            def check() -> list[str]:
                asked = {
                    expr: get(f"{url}/api/v1/query", query=expr) for expr in dashboard_queries()
                }
                return [f"no data for {expr}" for expr in asked if not has_data(asked[expr])]

            faults = await eventually(check)
            calling.cancel()
            await asyncio.wait([calling])
    served.shutdown()
    thread.join()
    return faults


# -- cassettes -----------------------------------------------------------------------------------


async def see_cassettes(folder: Path) -> list[str]:
    """Return for which calls a cassette plays that it should not, or does not that it should."""
    from swink_recorder.cassette import Cassette

    recording, model = _recording(), f"anthropic/{_recording().model}"
    tool = swink.Tool("look_up", "Look a word up.", {"type": "object"})
    others: dict[str, tuple[str, dict[str, Any]]] = {
        "another tool": (model, {"tools": [tool]}),
        "another option": (model, {"temperature": 0.5}),
        "another model": ("anthropic/claude-opus-4-5", {}),
    }
    async with swink.Client(retry=swink.RetryPolicy.none()) as client:
        async with ReplayServer() as server:
            there: Any = {"base_url": server.add("case", recording), "api_key": "none"}
            with Cassette(folder / "case.json"):
                said = await client.complete(model, "Hi", **there)
        with Cassette(folder / "case.json", "none"):
            again = await client.complete(model, "Hi", **there)
        faults = [] if again.content == said.content else ["it plays another answer"]
        for name, (other, options) in others.items():
            # one put in anew each time: what has been played is not played again anyway
            with Cassette(folder / "case.json", "none") as cassette, suppress(swink.StreamError):
                await client.complete(other, "Hi", **there, **options)
                faults.append(f"it plays for {name}")
            if len(cassette.unrecorded) != 1:
                faults.append(f"it does not say that nothing is recorded for {name}")
    return faults


CHECKS = {"Phoenix": see_traces, "Prometheus": see_metrics, "cassettes": see_cassettes}
"""The checks, by name; each returns its complaints, and has a separate folder."""


def main() -> int:
    """Ask all, or those that are named."""
    asked = sys.argv[1:] or [*CHECKS]
    if not PHOENIX.exists() or shutil.which("prometheus") is None:
        print("run `make counterparts`, which installs what this needs", file=sys.stderr)
        return 2
    failed = 0
    for name in asked:
        with tempfile.TemporaryDirectory() as folder:
            faults = asyncio.run(CHECKS[name](Path(folder)))
        failed += bool(faults)
        print("\n".join([f"{'FAILED' if faults else 'ok'}  {name}", *faults]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
