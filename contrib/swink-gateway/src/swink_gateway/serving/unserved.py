"""The answer to a request for a path that is not served, in the form of the path's API."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

from swink_gateway.protocols.table import PROTOCOLS
from swink_gateway.serving.answers import refusal

__all__ = ["is_unserved", "unserved"]

NOT_FOUND = 404

_VARIABLE = re.compile(r"\{(\w+):[^{}]*\}")
_OF_GEMINI = re.compile(r"/v1beta/|/v1/models/[^:]+:\w+$")
_OF_OLLAMA = re.compile(r"/api/")

SERVED = ", ".join(
    _VARIABLE.sub(r"{\1}", endpoint.path)
    for row in PROTOCOLS.values()
    for endpoint in row.endpoints
)
"""The paths to which clients POST, as messages list them."""


def is_unserved(request: web.Request, error: web.HTTPException) -> bool:
    """Tell whether there is no such path; Gemini's have a method behind a colon."""
    method = _OF_GEMINI.match(request.path) is not None and ":" in request.path
    return error.status == NOT_FOUND or (error.status == 405 and method)


def unserved(request: web.Request) -> web.Response:
    """Return a 404 that lists the served paths."""
    path = request.path[:100]
    why = f"{request.method} {path} is not served. POST to {SERVED}, or GET /v1/models."
    error: Any
    if _OF_OLLAMA.match(path):
        return web.json_response({"error": why}, status=NOT_FOUND)
    if _OF_GEMINI.match(path):
        error = {"code": NOT_FOUND, "message": why, "status": "NOT_FOUND"}
        return web.json_response({"error": error}, status=NOT_FOUND)
    return refusal(NOT_FOUND, why)
