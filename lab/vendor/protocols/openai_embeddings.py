"""OpenAI's embeddings: https://platform.openai.com/docs/api-reference/embeddings."""

from __future__ import annotations

import base64
import hashlib
import random
import struct
from typing import Any

from lab.vendor import jsons, tokens
from lab.vendor.bill import Usage, charge
from lab.vendor.catalog import model_of
from lab.vendor.protocols.base import Reply, Request, Route, as_body
from lab.vendor.protocols.reading import invalid
from lab.vendor.state import State

__all__ = ["ROUTES"]

_SIZES = {"text-embedding-3-large": 3_072}
_SIZE = 1_536


async def _embed(state: State, request: Request) -> Reply:
    body = as_body(request)
    model = jsons.text(body.get("model"))
    given = body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not model or not isinstance(texts, list) or not texts:
        raise invalid("'$.input' is invalid. Please check the API reference.", "input")
    size = body.get("dimensions") or _SIZES.get(model, _SIZE)
    rows: list[dict[str, Any]] = []
    prompt = 0
    for index, text in enumerate(texts):
        prompt += tokens.count(text) if isinstance(text, str) else len(text)
        vector: Any = _vector(f"{model} {text}", size)
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{size}f", *vector)).decode()
        rows.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": prompt, "total_tokens": prompt}
    reply = Reply.json({"object": "list", "data": rows, "model": model, "usage": usage})
    row = model_of(request.provider, model)
    reply.charge = charge(request.account, request.provider, row, Usage(prompt=prompt), "default")
    return reply


def _vector(text: str, size: int) -> list[float]:
    """Return a vector of length 1, the same for the same text."""
    chance = random.Random(hashlib.sha256(text.encode()).digest())
    raw = [chance.gauss(0, 1) for _ in range(size)]
    length = sum(each * each for each in raw) ** 0.5
    return [each / length for each in raw]


ROUTES = (Route("POST", r"/embeddings$", _embed),)
"""The route of embeddings."""
