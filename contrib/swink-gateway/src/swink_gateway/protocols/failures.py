"""What became of a call, as HTTP says it; the words for each protocol are in its module."""

from __future__ import annotations

from math import ceil

from swink_core import (
    Error,
    InvalidModel,
    ResponseHead,
    StreamError,
    SwinkError,
    UnknownProvider,
    UsageError,
    replace,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import KINDS, HTTPResponse

__all__ = ["PASSING", "STATUSES", "headers_of", "of_exception", "status_of", "text_of"]
__all__ += ["for_clients", "header_text", "of_bad_request", "passed_on", "standard_status"]
__all__ += ["BROKEN_OFF", "EMPTY", "NOT_AGAIN", "Refused"]

STATUSES = {kind: row.reply for kind, row in KINDS.items()}
"""RFC 9110 section 15: what a client does about each kind is up to it, by these.

Credentials that are refused are the gateway's own: of a 401 clients make that the key is wrong
which they have sent.
"""

PASSING = frozenset(
    kind
    for kind, row in KINDS.items()
    if row.falls_back and row.reply not in (400, 404) and kind is not Kind.PROTOCOL
)
"""What another model, or another time, may do better: nobody is left to ask when all failed so."""

NOT_AGAIN = "x-should-retry"
"""The header by which the SDKs of OpenAI and Anthropic, and Claude Code, let `false` keep them from
asking again, whatever the status."""

LAST_STANDARD = 511
"""The highest status that is registered: https://www.iana.org/assignments/http-status-codes."""

LIMITS_OF_PROVIDERS = ("x-ratelimit-", "anthropic-ratelimit-", "ratelimit")
"""How the names of headers begin in which providers say what a client has left."""

MOST_PASSED_ON = 32

MOST_HEADER = 2000
"""Characters of a header of ours."""


KEY_HERE = (", or pass api_key=…", " where the gateway runs")
"""What the library advises who lacks a provider's key, and what helps here: a client's is ours."""


OTHER_MODELS = (
    "GET /v1/models lists what may be asked for; its owner gives a model another name with "
    "swink gateway --route NAME=MODEL."
)
"""What a client can do about a model that is none here, and who has the gateway."""

ADVICE: dict[Kind, str] = {
    Kind.MODEL_NOT_FOUND: OTHER_MODELS,
    Kind.PROTOCOL: "",
    Kind.OUTPUT_TOO_LARGE: "Lower max_tokens.",
    Kind.INTERNAL: "",
    Kind.UNKNOWN: "",
}
"""What helps a client, where the library advises who calls it in Python, or runs it."""

TO_CALLERS = " Options in extra= are sent unchanged."

STOPPED = "closed"
"""The code of a call that the gateway closed itself, at its end: who leaves is told nothing."""

NOT_LET_IN = "The gateway was not let in"
ITS_OWNER = "Tell whoever runs the gateway, whose log says more; no key of yours is at fault."
"""What helps a client where it is the gateway's own credentials that a provider refused."""


UNREACHED = "the model's provider could not be reached"
BROKEN_OFF = "the connection to the model's provider failed"
NOT_NOW = "Ask again later. The gateway's log says more to whoever runs it."
"""What clients are told of a connection: its addresses are of the gateway's own network."""

EMPTY = "empty_response"
"""The code of an answer that the provider completed with neither text nor a tool call."""

RESTS = "cooldown"
"""The code of a call that was not made, since its model rests: it has the last failure's words."""


class Refused(Exception):
    """A request refused by the gateway itself, with the HTTP status of the refusal."""

    def __init__(self, error: Error, status: int, code: str | None = None) -> None:
        super().__init__(error.error_message)
        self.error = error
        self.status = status
        self.code = code  # the protocol's own word, where the kind of the error has none


def status_of(error: Error, models: int = 1) -> int:
    """Return the HTTP status of a failure, after which none of `models` models is left.

    It is the provider's own status, because SDKs choose their exception by it, except where the
    provider refuses the gateway's credentials.
    """
    if models > 1 and error.error_kind in PASSING:
        return 503
    is_of_key = error.error_kind is Kind.AUTH or error.status in (401, 407)
    if error.status is not None and 400 <= error.status <= 599 and not is_of_key:
        return error.status
    return STATUSES[error.error_kind or Kind.UNKNOWN]


def standard_status(status: int) -> int:
    """Return 503 for a status that RFC 9110 does not define, such as Anthropic's 529."""
    return status if status <= LAST_STANDARD else 503


def headers_of(error: Error) -> dict[str, str]:
    """Return headers that go with a failure.

    Clients repeat requests themselves, as they do without a gateway. A header keeps them from it
    where the provider refuses the gateway's own credentials.
    """
    headers = {}
    if error.error_kind is Kind.AUTH:
        headers[NOT_AGAIN] = "false"
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, ceil(error.retry_after)))
    return headers


def passed_on(response: ResponseHead | HTTPResponse | None) -> dict[str, str]:
    """Return the headers in which a provider says what is left of its limits."""
    names = [] if response is None else [n for n in response.headers if _says_limits(n)]
    return {name: response.headers[name] for name in names[:MOST_PASSED_ON] if response}


def _says_limits(name: str) -> bool:
    return name.lower().startswith(LIMITS_OF_PROVIDERS)


def for_clients(error: Error) -> Error:
    """Return a failure as clients are told it.

    An upstream that refuses the gateway's credentials says so to the gateway's owner: its words are
    about a key that clients do not have, and may name the model behind a name of ours. One that is
    not reached is at an address of the owner's. Of a call that was closed the library's words are
    for whoever closed it.
    """
    if error.code == STOPPED:
        told = replace(error, title="The gateway was stopped", resolution="Ask again.")
        told.error_message = "the gateway was stopped before the answer was whole"
        return told
    if error.phase == "connect" and error.error_kind in (Kind.NETWORK, Kind.TIMEOUT):
        said = error.error_message if error.code == RESTS else UNREACHED
        return replace(error, error_message=said, resolution=NOT_NOW)
    advice = error.resolution or ""
    if error.error_kind is not Kind.AUTH or KEY_HERE[0] in advice:
        return error
    told = replace(error, title=NOT_LET_IN, resolution=ITS_OWNER)
    if error.status is not None:
        told.error_message = "the model's provider does not accept the gateway's own credentials"
    return told


def text_of(error: Error) -> str:
    """Return what went wrong and what to do, for people."""
    error = for_clients(error)
    what = error.error_message or error.title
    if error.error_kind in PASSING and error.error_kind is not Kind.QUOTA_EXHAUSTED:
        return what or ""  # "try again", as is advised then, is what some clients look for, and do
    advice = (error.resolution or "").replace(*KEY_HERE).replace(TO_CALLERS, "")
    advice = ADVICE.get(error.error_kind or Kind.UNKNOWN, advice)
    return "\n".join(line for line in (what, advice) if line)


def of_bad_request(why: object) -> Error:
    """Return the failure that a request is which cannot be read."""
    return Error(error_message=str(why), error_kind=Kind.INVALID_REQUEST)


def of_exception(error: SwinkError) -> Error:
    """Return what stands in the way of a call as the error that it would end in."""
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
    """Return text as a header may hold it (RFC 9110 section 5.5)."""
    plain = value.encode("ascii", "replace").decode()
    return "".join(c if " " <= c <= "~" else " " for c in plain)[:MOST_HEADER]
