"""Shared code of the stand-ins of vendors' batch APIs: rows, checks and ends.

A request that the documentation does not have is refused with the status 400 and kept in `faults`.
A batch takes `polls` looks to end. A row whose prompt ends in `bad` is answered by an error, one
that ends in `lost` is not answered at all.
"""

from __future__ import annotations

import json
import re
import threading
import time
from typing import Any

from swink_recorder.loopback import Exchange, LoopbackServer

CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

USAGE = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}


class Refused(Exception):
    """A request that the vendor would not take."""


def expect(holds: object, why: str) -> None:
    if not holds:
        raise Refused(why)


class VendorServer(LoopbackServer):
    """One vendor's API: `batches` are those that were begun, by their ids."""

    prefix = ""

    def __init__(self, polls: int = 2) -> None:
        super().__init__()
        self.polls = polls
        self.batches: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.is_busy = False
        self.rejects = ""  # the reason why a whole batch fails
        self.withholds = (
            ""  # of a submission: the "request", the "answer", or the connection ("cut")
        )
        self.is_holding = threading.Event()

    async def respond(self, exchange: Exchange) -> None:
        try:
            expect(self.is_authorised(exchange), "no credentials")
            if self.is_busy:
                self.is_busy = False
                status, body = 503, b"{}"
            else:
                if self.withholds == "request" and self.is_submission(exchange):
                    await self._hold(exchange)
                status, body = 200, self.answered(exchange)
                if self.withholds == "cut" and self.is_submission(exchange):
                    exchange.reset()
                    return
                if self.withholds == "answer" and self.is_submission(exchange):
                    await self._hold(exchange)
        except (Refused, KeyError, ValueError) as error:
            self.faults.append(f"{exchange.method} {exchange.path}: {error!r}")
            status, body = 400, json.dumps({"error": {"message": repr(error)}}).encode()
        is_file = exchange.path.endswith("/content")
        kind = "application/octet-stream" if is_file else "application/json"
        await exchange.start(status, {"Content-Type": kind})
        await exchange.write(body)
        await exchange.end()

    async def _hold(self, exchange: Exchange) -> None:
        self.is_holding.set()
        await exchange.disconnected()
        raise Refused("the client left")

    def is_submission(self, exchange: Exchange) -> bool:
        """Tell whether a request begins a batch."""
        ends = (":batchGenerateContent", "/model-invocation-job", "/batches", "/batch/jobs")
        return exchange.method == "POST" and exchange.path.endswith(ends)

    def is_authorised(self, exchange: Exchange) -> bool:
        return exchange.headers.get("authorization") == "Bearer key"

    def answered(self, exchange: Exchange) -> bytes:
        """Return the body of the answer. Raises Refused."""
        raise NotImplementedError

    def begin(self, requests: list[tuple[str, str]]) -> dict[str, Any]:
        """Begin a batch of ids and prompts."""
        ids = [id for id, _ in requests]
        expect(len({*ids}) == len(ids), "an id twice")
        expect(all(map(CUSTOM_ID.fullmatch, ids)), "an id that is none")
        expect(ids, "no requests")
        id = f"batch_{len(self.batches) + 1}"
        self.batches[id] = {"id": id, "requests": requests, "looks": 0, "cancelled": False}
        self.batches[id]["at"] = time.time()
        return self.batches[id]

    def look(self, id: str) -> tuple[dict[str, Any], bool]:
        """Look at a batch, and tell whether it has ended."""
        batch = self.batches[id]
        batch["looks"] += 1
        return batch, batch["looks"] >= self.polls or batch["cancelled"]

    def results(self, batch: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the ids and prompts that were answered."""
        found = [each for each in batch["requests"] if not each[1].endswith("lost")]
        return found[:1] if batch["cancelled"] else found
