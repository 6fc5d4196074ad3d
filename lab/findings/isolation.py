"""Print what a gateway passes on of ids that belong to another team, and what a cache gives away.

    python -m lab.findings.isolation

All keys of a gateway share the vendor's account, so the vendor refuses none of them.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from lab.findings.gateways import MODEL, Gateway, gateway, key_of, owner, verdict
from lab.vendor import Vendor

CONFIGURATION = owner("alice", models=["openai/*"]) + owner("bob", models=["openai/*"])

FOREIGN: dict[str, dict[str, object]] = {
    "conversation": {"conversation": "conv_of_alice"},
    "vector store": {"tools": [{"type": "file_search", "vector_store_ids": ["vs_of_alice"]}]},
    "container": {"tools": [{"type": "code_interpreter", "container": "cntr_of_alice"}]},
    "file": {
        "input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_of_alice"}]}]
    },
    "previous response": {"previous_response_id": "resp_of_alice"},
}
"""Fields of a request to `/v1/responses` that name what another team made."""


def named(vendor: Vendor, id: str, since: int) -> bool:
    """Return whether the vendor received an id in a request after number `since`."""
    return any(id.encode() in each.body for each in vendor.state.record.of(since=since))


def last(vendor: Vendor) -> int:
    """Return the number of the last request."""
    exchanges = vendor.state.record.exchanges
    return exchanges[-1].number if exchanges else 0


def responses(vendor: Vendor, served: Gateway) -> None:
    """Name each kind of id in a request to `/v1/responses`."""
    for kind, fields in FOREIGN.items():
        since = last(vendor)
        body = {"model": MODEL, "input": "Hi", **fields}
        reply = served.ask("/v1/responses", key_of("bob"), body)
        sent = named(vendor, "_of_alice", since)
        verdict(not sent, f"{kind} of another team: {reply.status}, reached the vendor: {sent}")


def native(vendor: Vendor, served: Gateway) -> None:
    """Name an earlier response as an extra option of `/v1/stream`."""
    since = last(vendor)
    body = {
        "model": MODEL,
        "stream": False,
        "messages": [{"role": "user", "content": "Hi"}],
        "options": {"extra": {"previous_response_id": "resp_of_alice"}},
    }
    reply = served.ask("/v1/stream", key_of("bob"), body)
    sent = named(vendor, "_of_alice", since)
    verdict(
        not sent,
        f"previous response through /v1/stream: {reply.status}, reached the vendor: {sent}",
    )


def unknown_code(served: Gateway) -> None:
    """Name a response that does not exist, and look for the code of OpenAI's error."""
    body = {"model": MODEL, "previous_response_id": "nope", "input": "Hi"}
    reply = served.ask("/v1/responses", key_of("bob"), body)
    code = reply.error.get("code")
    text = f"unknown previous response: {reply.status}, code {code}"
    verdict(code == "previous_response_not_found", text)


def shared_cache() -> None:
    """Ask the same as another team, with a cache of answers."""
    with tempfile.TemporaryDirectory() as folder, Vendor(first_token=0.5) as vendor:
        environment = {"SWINK_CACHE": str(Path(folder) / "cache.sqlite")}
        with gateway(vendor, CONFIGURATION, environment=environment) as served:
            for name in ("alice", "bob"):
                began = time.monotonic()
                reply = served.chat(name, MODEL, "Is the project for sale?", max_tokens=20)
                seconds = time.monotonic() - began
                print(f"       {name}: {reply.status} after {seconds:.2f} s")
            asked = len(vendor.state.record.of())
    verdict(asked == 2, f"a question of two teams, with a cache: {asked} requests to the vendor")


def main() -> None:
    """Print one line for each kind of id, and one for the cache."""
    with Vendor() as vendor, gateway(vendor, CONFIGURATION) as served:
        responses(vendor, served)
        native(vendor, served)
        unknown_code(served)
    shared_cache()


if __name__ == "__main__":
    main()
