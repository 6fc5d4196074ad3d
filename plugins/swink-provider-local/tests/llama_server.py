"""A server that is not ours as the other side: llama.cpp's, with a model whose answers are known.

    with running_engine(folder) as engine:
        base_url = f"{engine.url}/v1"       # /v1/chat/completions and /v1/messages

It runs in the child process that `swink-provider-local` has for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from attrs import define, field
from make_tiny_gguf import CONTEXT, write_model

from swink_core import Tool
from swink_provider_local import engine as child_process
from swink_provider_local.engine import Settings

__all__ = ["ANSWER_TOKENS", "SCHEMA", "WEATHER", "Engine", "running_engine"]

MODEL = "tiny"
ANSWER_SECONDS = 60
"""For a busy machine; an idle one needs milliseconds."""

ANSWER_TOKENS = 21
"""15 words, a space, the sign's four bytes, and the end."""

WEATHER = Tool(
    "get_weather",
    "Tells the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}

_open = build_opener(ProxyHandler({})).open  # loopback, whatever the environment's proxies


@define
class Engine:
    """A running server. `url` has no slash at its end; `model` is what it calls its model."""

    url: str
    key: str = field(repr=False)
    model: str = MODEL

    def get(self, path: str) -> Any:
        """Return JSON data of one of the server's own pages."""
        request = Request(f"{self.url}{path}", headers={"Authorization": f"Bearer {self.key}"})
        with _open(request, timeout=ANSWER_SECONDS) as response:
            return json.load(response)

    def slot(self) -> dict[str, Any]:
        """Return the state of the one slot in which the server computes."""
        (slot,) = self.get("/slots")
        return dict(slot)

    def wait_until_idle(self, seconds: float) -> dict[str, Any]:
        """Return the slot's state once it is free. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while (slot := self.slot())["is_processing"]:
            if time.monotonic() > end:
                raise TimeoutError(f"the slot was still busy after {seconds} s")
            time.sleep(0.01)
        return slot


@contextmanager
def running_engine(folder: Path) -> Iterator[Engine]:
    """Make the model in `folder`, serve it, and stop the server in the end.

    Raises ProviderFailure where the server does not start.
    """
    path = folder / f"{MODEL}.gguf"
    write_model(path)
    child = child_process.Engine.start(Settings(path, CONTEXT, gpu_layers=0, threads=1))
    try:
        yield Engine(child.url.removesuffix("/v1"), child.key)
    finally:
        child.stop()
