"""The gateway's own error responses, in the format of the API that a path belongs to."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

from swink_gateway.protocols.failures import NOT_AGAIN
from swink_gateway.protocols.table import PROTOCOLS
from swink_gateway.serving.embeddings import PATHS as EMBEDDINGS

__all__ = ["is_unserved", "refusal", "refused_key", "unserved"]

NOT_FOUND = 404

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}

_VARIABLE = re.compile(r"\{(\w+):[^{}]*\}")
_OF_GEMINI = re.compile(r"/v1beta/|/v1/models/[^:]+:\w+$")
_OF_OLLAMA = re.compile(r"/api/")
GOOGLES_WORDS = "API key not valid."
"""A part of Google's error message, by which clients such as litellm recognize a refused key."""

_OF_OPENAI = re.compile(r"/v1/(chat|responses|embeddings)\b")

_PATHS = (*(each.path for row in PROTOCOLS.values() for each in row.endpoints), *EMBEDDINGS)

SERVED = ", ".join(_VARIABLE.sub(r"{\1}", path) for path in _PATHS)
"""The paths to which clients POST, as error messages list them."""


def refusal(status: int, why: str) -> web.Response:
    """Return an error response whose message the SDKs of all protocols can read."""
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    error = {"type": kind, "message": why, "code": status}
    return web.json_response({"type": "error", "error": error}, status=status)


def refused_key(path: str, why: str) -> web.Response:
    """Return the error for a wrong key, with the status of the path's API.

    On Google's paths, the status is 400. A header keeps Claude Code from retrying ten times.
    """
    headers = {NOT_AGAIN: "false"}
    error: Any
    if _OF_OLLAMA.match(path):
        return web.json_response({"error": why}, status=401, headers=headers)
    if _OF_GEMINI.match(path):
        reason = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
        }
        message = f"{GOOGLES_WORDS} {why}"
        error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
        error["details"] = [reason]
        return web.json_response({"error": error}, status=400, headers=headers)
    if _OF_OPENAI.match(path):
        error = {"message": why, "type": "invalid_request_error", "param": None}
        error["code"] = "invalid_api_key"
        return web.json_response({"error": error}, status=401, headers=headers)
    refused = refusal(401, why)
    refused.headers.update(headers)
    return refused


def is_unserved(request: web.Request, error: web.HTTPException) -> bool:
    """Return True if the path does not exist.

    The router reports the status 405 for some unknown paths: for Gemini's, which have a method
    after a colon, and for a POST to `/v1/responses/compact`, which looks like the path of a stored
    response and exists only for GET and DELETE.
    """
    method = _OF_GEMINI.match(request.path) is not None and ":" in request.path
    is_call = method or request.method == "POST"
    return error.status == NOT_FOUND or (error.status == 405 and is_call)


def unserved(request: web.Request) -> web.Response:
    """Return a 404 that lists the served paths."""
    path = request.path[:100]
    why = f"{request.method} {path} is not supported. POST to {SERVED}, or GET /v1/models."
    error: Any
    if _OF_OLLAMA.match(path):
        return web.json_response({"error": why}, status=NOT_FOUND)
    if _OF_GEMINI.match(path):
        error = {"code": NOT_FOUND, "message": why, "status": "NOT_FOUND"}
        return web.json_response({"error": error}, status=NOT_FOUND)
    return refusal(NOT_FOUND, why)
