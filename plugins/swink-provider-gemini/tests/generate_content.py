"""Frames of `streamGenerateContent`, for tests that make answers up."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["SSE", "body", "call", "frame", "partial", "text", "thought"]

SSE = {"Content-Type": "text/event-stream"}


def frame(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A frame with parts; `more` are fields of the candidate."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, **more}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate]}


def text(words: str, **more: Any) -> dict[str, Any]:
    """A part of text."""
    return {"text": words, **more}


def thought(words: str, **more: Any) -> dict[str, Any]:
    """A summary of a thought."""
    return {"text": words, "thought": True, **more}


def call(name: str, args: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A whole function call; `id` goes into it, all else beside it."""
    inner: dict[str, Any] = {"name": name}
    if args is not None:
        inner["args"] = args
    if "id" in more:
        inner["id"] = more.pop("id")
    return {"functionCall": inner, **more}


def partial(*pieces: dict[str, Any], more: bool = True) -> dict[str, Any]:
    """A part that adds to the arguments of the call that is open."""
    inner: dict[str, Any] = {"partialArgs": list(pieces)} if pieces else {}
    if more:
        inner["willContinue"] = True
    return {"functionCall": inner}


def body(*frames: dict[str, Any]) -> bytes:
    """The body of a response that streams these frames."""
    return b"".join(b"data: " + json.dumps(data).encode() + b"\r\n\r\n" for data in frames)
