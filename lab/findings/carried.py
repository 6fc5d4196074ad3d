"""Print which fields of a client's request reach each vendor, and which are lost without a notice.

    python -m lab.findings.carried [chat | messages | responses | gemini | ollama]

The upstream request is compared with and without the field. A loss is declared if a header of the
response names it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from typing import Any

from lab.findings.carried_fields import PROTOCOLS
from lab.findings.upstreams import MODELS, Answered, Stand, stand, verdict


def declared(answer: Answered) -> bool:
    """Return whether a header of the response names something that was changed or lost."""
    names = [name.lower() for name in answer.headers]
    return any(name.startswith("x-swink-") and name != "x-swink-model" for name in names)


async def outcome(at: Stand, path: str, plain: dict[str, Any], body: dict[str, Any]) -> str:
    """Classify a field as carried, declared, silent, or refused with a status."""
    await at.post(path, plain)
    without = at.last_body
    at.forget()
    answer = await at.post(path, body)
    if answer.status != 200:
        return f"status {answer.status}"
    if json.dumps(at.last_body, sort_keys=True) != json.dumps(without, sort_keys=True):
        return "carried" if not declared(answer) else "carried, with a notice"
    return "declared" if declared(answer) else "SILENT"


async def fields(at: Stand, protocol: str) -> None:
    """Print the outcomes of each field of a client's protocol."""
    path, plain, table = PROTOCOLS[protocol]
    for field, values in table.items():
        models: dict[str, list[str]] = defaultdict(list)
        for model in MODELS:
            body = {**({} if "{model}" in path else {"model": model}), **plain}
            place = path.replace("{model}", model)
            models[await outcome(at, place, body, {**body, **values})].append(model)
        shown = "; ".join(f"{what}: {', '.join(names)}" for what, names in models.items())
        print(f"{protocol:9} {field:22} {shown}", flush=True)


async def answers(at: Stand) -> None:
    """Print whether a refusal keeps its field, directly and through the gateway."""
    path, plain, _ = PROTOCOLS["chat"]
    for base, model in ((at.vendor.url, "gpt-4.1"), (at.gateway, "gpt"), (at.gateway, "deepseek")):
        at.play([{"refusal": "I refuse."}])
        answer = await at.post(path, {"model": model, **plain}, base)
        choice = answer.data["choices"][0] if answer.status == 200 else {}
        message = choice.get("message", {})
        kept = message.get("refusal") == "I refuse." and not message.get("content")
        detail = f"{answer.status} {choice.get('finish_reason')}, content {message.get('content')}"
        where = "directly" if base == at.vendor.url else "through the gateway"
        verdict(kept, f"chat: a refusal of {model} {where} is a refusal", detail)


async def run(protocols: list[str]) -> None:
    """Print one line for each field, then one for each refusal."""
    async with stand() as at:
        for protocol in protocols:
            await fields(at, protocol)
        await answers(at)


def main() -> None:
    """Run the program."""
    asyncio.run(run(sys.argv[1:] or list(PROTOCOLS)))


if __name__ == "__main__":
    main()
