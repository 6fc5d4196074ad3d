"""HTTP statuses, headers and texts of failures; each protocol's module formats its errors."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from swink_core import (
    Error,
    InvalidModel,
    ResponseHead,
    Retry,
    StopReason,
    StreamError,
    SwinkError,
    UnknownProvider,
    UsageError,
    replace,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import KINDS, HTTPResponse

__all__ = ["LIMIT", "STATUSES", "headers_of", "of_exception", "status_of", "text_of"]
__all__ += ["for_clients", "header_text", "of_bad_request", "passed_on", "standard_status"]
__all__ += ["BROKEN_OFF", "EMPTY", "NOT_AGAIN", "OWN_KEY", "RESTS", "SHUTDOWN", "Refused"]
__all__ += ["told_of_shutdown", "why_again"]

STATUSES = {kind: row.reply for kind, row in KINDS.items()}
"""The HTTP status for each kind of failure (RFC 9110 section 15).

If a provider refuses the gateway's credentials, the status is not 401: clients would report that
their own key is wrong.
"""

PASSING = frozenset(
    kind
    for kind, row in KINDS.items()
    if row.falls_back and row.reply not in (400, 404) and kind is not Kind.PROTOCOL
)
"""Failures that another model or a later attempt may avoid.

A client gets such a failure only after all models have failed.
"""

NOT_AGAIN = "x-should-retry"
"""The header that keeps clients from retrying if it is `false`, whatever the status.

OpenAI's and Anthropic's SDKs and Claude Code obey it.
"""

LAST_STANDARD = 511
"""The highest registered status: https://www.iana.org/assignments/http-status-codes."""

LIMITS_OF_PROVIDERS = ("x-ratelimit-", "anthropic-ratelimit-", "ratelimit")
"""Prefixes of headers in which providers report the remaining limits of a client."""

MOST_PASSED_ON = 32

MOST_HEADER = 2000
"""The maximum number of characters in a response header."""


KEY_HERE = (", or pass api_key=…", " where the gateway runs")
"""The library's advice on a missing provider key, and its replacement for clients.

Only the operator can set the key.
"""


OTHER_MODELS = (
    "GET /v1/models lists the models that you may use; the operator can add others: with "
    "--route NAME=MODEL, or in the routes and keys of the --config file."
)
"""Advice for clients on a model that does not exist."""

ADVICE: dict[Kind, str] = {
    Kind.MODEL_NOT_FOUND: OTHER_MODELS,
    Kind.PROTOCOL: "",
    Kind.OUTPUT_TOO_LARGE: "Lower max_tokens.",
    Kind.INTERNAL: "",
    Kind.UNKNOWN: "",
}
"""Advice for clients that replaces the library's advice to Python callers or operators."""

TO_CALLERS = " Options in extra= are sent unchanged."

STOPPED = "closed"
"""The core's code of a call that was closed. The gateway closes running calls only at shutdown."""

SHUTDOWN = "shutdown"
"""The code of the failure that clients get for a call that the gateway closed at shutdown."""

RESTART_SECONDS = 5.0
"""The Retry-After in seconds after a shutdown, in which most gateways start again."""

NO_TOKEN = "token"
"""The core's code of a call that was not sent because a token service issued no token."""

NO_KEY = "no_credentials"
"""The core's code of a call that was not sent because the gateway has no key for the provider."""

OWN_KEY = "the model's provider does not accept the gateway's own credentials"
NOT_LET_IN = "The provider refused the gateway's credentials"
ITS_OWNER = "Ask the operator of the gateway to check its log. Your own key is not at fault."
"""The advice for clients after a provider refused the gateway's credentials."""


UNREACHED = "the model's provider cannot be reached"
BROKEN_OFF = "the connection to the model's provider failed"
NOT_NOW = "Retry later. The gateway's log has details for its operator."
"""These three texts about failed connections contain no addresses, which clients must not see."""

EMPTY = "empty_response"
"""The code of an answer that the provider completed with neither text nor a tool call."""

RESTS = "cooldown"
"""The code of a call that was not sent because of a cooldown.

The message of such a failure contains no address and no text of another client.
"""


class Refused(Exception):
    """A request refused by the gateway itself, with the HTTP status of the refusal."""

    def __init__(self, error: Error, status: int, code: str | None = None) -> None:
        super().__init__(error.error_message)
        self.error = error
        self.status = status
        self.code = code  # an error code of the protocol, for errors without a kind


LIMIT = "limit"
"""The code of an attempt that was refused because of a limit of the client's key.

Such a failure does not mean that the model fails.
"""


def status_of(error: Error, models: int = 1) -> int:
    """Return the HTTP status of a failure, after all models of a chain have failed.

    `models` is the number of models in the chain. If there are several, and the failure is of a
    kind in `PASSING`, the status is 503. Otherwise it is the provider's own status, because SDKs
    choose the type of an exception by the status. If the provider refuses the gateway's credentials
    with this status, another status is returned.
    """
    if models > 1 and error.error_kind in PASSING and error.code != LIMIT:
        return 503
    is_of_key = error.error_kind is Kind.AUTH or error.status in (401, 407)
    if error.status is not None and 400 <= error.status <= 599 and not is_of_key:
        return error.status
    return STATUSES[error.error_kind or Kind.UNKNOWN]


def standard_status(status: int) -> int:
    """Return 503 for a status that RFC 9110 does not define, such as Anthropic's 529."""
    return status if status <= LAST_STANDARD else 503


def headers_of(error: Error) -> dict[str, str]:
    """Return the response headers for a failure.

    Clients retry by themselves, as they do without a gateway. If the provider refuses the gateway's
    own credentials, a header keeps clients from retrying.
    """
    headers = {}
    if error.error_kind is Kind.AUTH:
        headers[NOT_AGAIN] = "false"
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, ceil(error.retry_after)))
    return headers


def passed_on(response: ResponseHead | HTTPResponse | None) -> dict[str, str]:
    """Return the headers in which a provider reports its remaining limits."""
    names = [] if response is None else [n for n in response.headers if _says_limits(n)]
    return {name: response.headers[name] for name in names[:MOST_PASSED_ON] if response}


def _says_limits(name: str) -> bool:
    return name.lower().startswith(LIMITS_OF_PROVIDERS)


def for_clients(error: Error) -> Error:
    """Rewrite a failure for clients, without the details that clients must not see.

    If an upstream or its token service refuses the gateway's credentials, the message is for the
    operator, and may reveal the model behind a name. The address of an unreachable upstream is
    private as well.
    """
    if error.code == NO_TOKEN and error.error_kind is not Kind.AUTH:
        return replace(error, error_message=UNREACHED, resolution=NOT_NOW)
    if error.phase == "connect" and error.error_kind in (Kind.NETWORK, Kind.TIMEOUT):
        said = error.error_message if error.code == RESTS else UNREACHED
        return replace(error, error_message=said, resolution=NOT_NOW)
    if error.error_kind is not Kind.AUTH or KEY_HERE[0] in (error.resolution or ""):
        return error
    told = replace(error, title=NOT_LET_IN, resolution=ITS_OWNER)
    if error.status is not None or error.code == NO_TOKEN:
        told.error_message = OWN_KEY
    return told


def told_of_shutdown(batch: Sequence[Any]) -> Sequence[Any]:
    """Return a batch of events for a client; replace its end if the gateway shuts down.

    The gateway closes its calls, which the core reports as cancelled by the caller. Clients did not
    cancel anything, and would not retry: they get the failure of a service that stopped. Its kind
    is not `overloaded`, after which Codex does not retry.
    """
    end = batch[-1] if batch else None
    if not isinstance(end, Error) or end.code != STOPPED:
        return batch
    failed = replace(
        end,
        stop_reason=StopReason.ERROR,
        error_kind=Kind.NETWORK,
        error_message="the gateway was stopped before the answer was complete",
        title="The gateway was stopped",
        resolution="Send the request again.",
        code=SHUTDOWN,
        status=STATUSES[Kind.OVERLOADED],
        retry_after=RESTART_SECONDS,
    )
    return [*batch[:-1], failed]


def why_again(retry: Retry) -> str:
    """Return the failure behind a `Retry` event for clients, without details as in `for_clients`.

    The event does not say whether a provider answered, so a failure of the credentials gets the
    same text in all cases but one: the gateway has no key.
    """
    if retry.error_kind is Kind.AUTH and retry.code != NO_KEY:
        return OWN_KEY
    return UNREACHED if retry.code == NO_TOKEN else retry.error


def text_of(error: Error) -> str:
    """Return the message and the advice of a failure, for people."""
    error = for_clients(error)
    what = error.error_message or error.title
    if error.error_kind in PASSING and error.error_kind is not Kind.QUOTA_EXHAUSTED:
        return what or ""  # no advice: some clients retry if they find "try again"
    advice = (error.resolution or "").replace(*KEY_HERE).replace(TO_CALLERS, "")
    advice = ADVICE.get(error.error_kind or Kind.UNKNOWN, advice)
    return "\n".join(line for line in (what, advice) if line)


def of_bad_request(why: object) -> Error:
    """Return the failure for an invalid request."""
    return Error(error_message=str(why), error_kind=Kind.INVALID_REQUEST)


def of_exception(error: SwinkError) -> Error:
    """Return the failure for an exception that was raised before a call began."""
    kind, resolution = Kind.INTERNAL, error.resolution
    if isinstance(error, StreamError):
        kind = error.kind
    elif isinstance(error, UnknownProvider | InvalidModel):
        kind, resolution = Kind.MODEL_NOT_FOUND, OTHER_MODELS
    elif isinstance(error, UsageError):
        kind = Kind.INVALID_REQUEST
    made = Error(error_message=error.message, error_kind=kind)
    made.title, made.resolution = error.title, resolution
    return made


def header_text(value: str) -> str:
    """Return text with only the characters that a header may contain (RFC 9110 section 5.5)."""
    plain = value.encode("ascii", "replace").decode()
    if not plain.isprintable():
        plain = "".join(c if " " <= c <= "~" else " " for c in plain)
    return plain[:MOST_HEADER]
