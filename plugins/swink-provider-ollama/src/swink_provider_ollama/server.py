"""Query a server for the capabilities of models (https://docs.ollama.com/api).

`/api/show` reports the capabilities of a model and its maximum context; `/api/tags` lists the
models that have been pulled.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from attrs import evolve

from swink_core import Model, ModelInfo
from swink_core.providers import HTTPClient, HTTPRequest

__all__ = ["Answer", "Pulled", "Shown", "asked"]

ANSWER_BYTES = 4 * 1024 * 1024
"""The maximum size of an answer in bytes; an answer of `/api/show` contains a whole licence."""

CAPABILITIES = {"tools": "tools", "thinking": "thinking", "vision": "images"}
ALWAYS = frozenset({"json", "structured_output"})
"""Features that the server provides for every model."""

GUESSES = "ollama-without-"
"""The prefix of the names of rules in `models.toml` that guess capabilities from a model's name."""

Answer = TypeVar("Answer")


class Shown(msgspec.Struct):
    """A response of `/api/show`."""

    capabilities: list[str] | None = None
    model_info: dict[str, Any] = {}
    parameters: str | None = None

    def info(self, model: Model, status: str = "active") -> ModelInfo:
        """Merge the server's information about a model into its catalogue entry.

        `extra.num_ctx` is the context length in the model's Modelfile, in tokens.
        """
        known = model.info or ModelInfo(model.id, model.provider)
        window = self.model_info.get(
            f"{self.model_info.get('general.architecture')}.context_length"
        )
        changed: dict[str, Any] = {"status": status}
        if pinned := re.search(r"^num_ctx\s+(\d{1,9})\s*$", self.parameters or "", re.MULTILINE):
            changed["extra"] = {**known.extra, "num_ctx": int(pinned.group(1))}
        if isinstance(window, int):
            changed["context_window"] = window
        if self.capabilities is not None:
            can = {CAPABILITIES[name] for name in self.capabilities if name in CAPABILITIES}
            changed["capabilities"] = ALWAYS | can
        return msgspec.structs.replace(known, **changed)

    def told_of(self, model: Model) -> Model:
        """Return a copy of a model whose catalogue entry contains the server's information.

        If the server lists the model's capabilities, rules that guess missing capabilities from the
        name of the model are removed.
        """
        rules = model.rules
        if self.capabilities is not None:
            rules = tuple(rule for rule in rules if not rule.name.startswith(GUESSES))
        return evolve(model, info=self.info(model), rules=rules)


class _Tag(msgspec.Struct):
    name: str


class Pulled(msgspec.Struct):
    """A response of `/api/tags`."""

    models: list[_Tag] = []


async def asked(
    http: HTTPClient, request: HTTPRequest, kind: type[Answer], connect_timeout: float | None
) -> Answer | None:
    """Send a request and return the response, parsed as the type `kind`.

    Returns `None` if the server responds with an error or with data of another type. Raises
    ProviderFailure if the server cannot be reached.
    """
    response = await http.send(request, connect_timeout)
    body = b""
    try:
        async for data in response:
            body += data
            if len(body) > ANSWER_BYTES:
                return None
    finally:
        response.close()
    try:
        return msgspec.json.decode(body, type=kind) if response.status == 200 else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
