"""OpenAI's list of models: https://platform.openai.com/docs/api-reference/models."""

from __future__ import annotations

from typing import Any

from lab.vendor.catalog import MODELS, Model
from lab.vendor.failures import Failure, Refused
from lab.vendor.protocols.base import Reply, Request, Route
from lab.vendor.state import State

__all__ = ["ROUTES"]

_CREATED = 1_780_000_000


async def _models(state: State, request: Request) -> Reply:
    rows = [_row(model) for model in MODELS.values() if model.vendor == request.provider]
    return Reply.json({"object": "list", "data": rows})


async def _one(state: State, request: Request) -> Reply:
    id = request.found["model"]
    model = MODELS.get(id)
    if model is None or model.vendor != request.provider:
        message = f"The model '{id}' does not exist"
        raise Refused(Failure("not_found", message, code="model_not_found", param="model"))
    return Reply.json(_row(model))


def _row(model: Model) -> dict[str, Any]:
    return {"id": model.id, "object": "model", "created": _CREATED, "owned_by": "system"}


ROUTES = (
    Route("GET", r"/models$", _models),
    Route("GET", r"/models/(?P<model>[^/:]+)$", _one),
)
