"""A check of the requests that a package's `requests.jsonl` lists."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from unittest.mock import patch

import msgspec

from swink_core import (
    CacheStrategy,
    CodecError,
    Context,
    StreamErrorKind,
    load,
)
from swink_core.providers import Exchange
from swink_judge import Asked
from swink_judge.matrix.asker import Asker, Outcome, address_of
from swink_testing.conformance.answers.expected_messages import notice_difference
from swink_testing.conformance.check import DoesNotApply, fail, independent_part, require
from swink_testing.conformance.subject import Subject

__all__ = ["LISTED_REQUESTS", "check_listed_requests"]

LISTED_REQUESTS = "requests.jsonl"
"""The name of the file in which a package lists calls. Each line has a call and its request."""


class Listed(msgspec.Struct):
    """A call and its expected request.

    `context` has the format that `dump` writes. `model` is an id (`None`: the first model in the
    catalogue). `provider` is the only provider of the package to which the row applies (`None`: the
    row applies to all). `options` are the options of the call, and `of_client` the client's options
    for the provider. `environ` contains environment variables that are set during the call. `body`
    is the JSON data of the request (`{}`: no body) or, for a provider without HTTP, the converted
    conversation. `body` is `None` if the call is refused as unsupported; the error message must
    then contain `says`. The request must have the headers in `headers`, and may have more. `method`
    is the HTTP method, and `path` is the part of the URL after the base URL (`None`: any).
    `notices` contains, for each expected notice in order, a part of the text
    `code: detail (paths)`.
    """

    about: str
    context: dict[str, Any]
    body: dict[str, Any] | None = None
    model: str | None = None
    provider: str | None = None
    options: dict[str, Any] = {}
    of_client: dict[str, Any] = {}
    environ: dict[str, str] = {}
    says: str = ""
    headers: dict[str, str] = {}
    method: str = "POST"
    path: str | None = None
    notices: list[str] = []


def check_listed_requests(subject: Subject) -> None:
    """Each call in the package's `requests.jsonl` makes the listed request."""
    rows = subject.rows(LISTED_REQUESTS, Listed)
    if not rows:
        raise DoesNotApply(f"its package does not ship {LISTED_REQUESTS}")
    if not (subject.speaks_http or subject.reads_elsewhere):
        raise DoesNotApply("it sends no request that could be looked at")

    async def ask() -> None:
        async with AsyncExitStack() as stack:
            askers: dict[str, Asker] = {}
            for place, row in rows:
                where = f"{place} ({row.about})"
                if (client := repr(row.of_client)) not in askers:
                    own = {subject.name: _options(row.of_client)}
                    asker = subject.asker(providers=own)
                    askers[client] = await stack.enter_async_context(asker)
                with independent_part():
                    with patch.dict(os.environ, row.environ):
                        outcome = await _asked(askers[client], subject, where, row)
                    _compare(where, row, outcome)

    asyncio.run(ask())


async def _asked(asker: Asker, subject: Subject, where: str, row: Listed) -> Outcome:
    try:
        context = load(Context, row.context)
    except CodecError as error:
        fail(f"{where}: its context cannot be read: {error}")
    id, options = subject.listed_model(row.model).id, _options(row.options)
    if subject.speaks_http:
        return await subject.outcome(asker, where, context, options, id)
    said: list[Any] = []

    async def instead(x: Exchange) -> AsyncIterator[bytes]:
        said.append(x.payload)
        yield b""

    with patch.object(subject.provider, "exchange", instead):
        outcome = await subject.outcome(asker, where, context, options, id)
    if said:
        outcome.fault, outcome.asked = None, Asked(subject.name, "*", id, said[0])
    return outcome


def _options(listed: dict[str, Any]) -> dict[str, Any]:
    if isinstance(cache := listed.get("cache"), dict):
        return {**listed, "cache": CacheStrategy(**cache)}
    return dict(listed)


def _compare(where: str, row: Listed, outcome: Outcome) -> None:
    broken = outcome.fault or (outcome.usage_error and outcome.usage_error.message)
    require(not broken, f"{where} fails: {broken}")
    if outcome.asked is None:
        why = outcome.refusal.error_message if outcome.refusal else "nothing is sent"
        require(row.body is None, f"{where} is refused: {why}", None, row.body)
        kind = outcome.refusal and outcome.refusal.error_kind
        require(kind == StreamErrorKind.UNSUPPORTED, f"{where} fails ({kind}): {why}")
        require(row.says in why, f"{where} should say {row.says!r}: {why}", None, row.says)
        return
    body = json.loads(json.dumps(outcome.asked.body))
    require(body == row.body, f"{where} is another request", body, row.body)
    if (request := outcome.request) is not None:
        sent = {name.lower(): value for name, value in request.headers.items()}
        for name, value in row.headers.items():
            found = sent.get(name.lower())
            require(found == value, f"{where}: the header {name} is {found!r}", None, value)
        method = request.method
        require(method == row.method, f"{where} is a {method}", body, row.method)
        path = request.url.removeprefix(address_of(outcome.case))
        require(row.path in (None, path), f"{where} goes to {path}", body, row.path)
    if (difference := notice_difference(outcome.notices, row.notices)) is not None:
        fail(f"{where}: {difference}", body, row.notices)
