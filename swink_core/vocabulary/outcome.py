"""How an answer ended and what it used: stop reasons, kinds of failure, token usage and cost."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from swink_core.vocabulary.structs import Finite, Record, replace


class StopReason(StrEnum):
    """Why an answer ended, in provider-neutral terms."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    CONTENT_FILTER = "content_filter"
    PAUSE = "pause"
    """The provider paused the answer: to continue it, call again with this answer at the end."""
    ERROR = "error"
    ABORTED = "aborted"


class StreamErrorKind(StrEnum):
    """The kind of a failure, which determines retries and fallback.

    The docstring of each kind lists its causes. A table in the documentation contains these texts.
    """

    THROTTLED = "throttled"
    """The rate of requests or tokens is limited: HTTP 429, or the same error inside a stream."""
    OVERLOADED = "overloaded"
    """The provider has no capacity: HTTP 503 or 529, or the same error inside a stream."""
    NETWORK = "network"
    """The connection or the server failed: no connection, a reset, an end before the answer is
    complete, HTTP 408 and other 5xx.
    """
    EMPTY_RESPONSE = "empty_response"
    """The answer is complete but has no text, media or readable tool call."""
    TIMEOUT = "timeout"
    """A time limit was exceeded: connect, first event, idle, no progress, throughput, total."""
    PROTOCOL = "protocol"
    """The answer violates the wire format: not an event stream (a proxy's page), a damaged frame
    that may have contained content, too many malformed frames, a frame longer than the limit, a
    redirect, events in an order that is not allowed.
    """
    AUTH = "auth"
    """Credentials are missing, invalid, expired or not enough: HTTP 401, 403."""
    QUOTA_EXHAUSTED = "quota_exhausted"
    """The account's quota or credit is used up: HTTP 402."""
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    """The conversation exceeds the model's context window."""
    CONTENT_FILTERED = "content_filtered"
    """The request was refused because of the content, without an answer."""
    MODEL_NOT_FOUND = "model_not_found"
    """The model does not exist, is retired or closed to this account: HTTP 404, 410."""
    INVALID_REQUEST = "invalid_request"
    """The provider rejects the request: HTTP 400, 405, 406, 413, 415, 422."""
    UNSUPPORTED = "unsupported"
    """The provider or model lacks a requested feature, usually detected before sending."""
    OUTPUT_TOO_LARGE = "output_too_large"
    """The answer is longer than `max_output_chars`."""
    RESOURCE = "resource"
    """This machine ran out of file descriptors or memory."""
    CANCELLED = "cancelled"
    """The caller closed or cancelled the stream."""
    INTERNAL = "internal"
    """The code of a plugin raised an exception."""
    UNKNOWN = "unknown"
    """The failure could not be classified; the kind is never guessed."""


T = TypeVar("T")
E_co = TypeVar("E_co", covariant=True)


def for_every_kind(name: str, rows: Mapping[StreamErrorKind, T]) -> dict[StreamErrorKind, T]:
    """Return the rows in the order of the kinds.

    Raises LookupError if kinds have no row; the message names these kinds.
    """
    if missing := [kind.name for kind in StreamErrorKind if kind not in rows]:
        raise LookupError(f"{name}: no row for {', '.join(missing)}")
    return {kind: rows[kind] for kind in StreamErrorKind}


class _Make(Protocol, Generic[E_co]):
    def __call__(self, message: str, retry_after: float | None = None) -> E_co: ...


class _Constructor:
    """A descriptor for one kind of failure; its value is a function that creates such errors."""

    def __init__(self, kind: StreamErrorKind) -> None:
        self.kind = kind

    def __get__(self, _: object, cls: type[T]) -> _Make[T]:
        kind = self.kind
        new: Any = cls

        def make(message: str, retry_after: float | None = None) -> T:
            error: T = new(error_message=message, error_kind=kind, retry_after=retry_after)
            return error

        make.__doc__ = f"Make an error of the kind `{kind}`; `retry_after` is in seconds."
        return make


class ErrorConstructors:
    """The constructors of `Error`, one for each kind of failure.

    When a kind is added, a line for it must be added here.
    """

    __slots__ = ()

    throttled = _Constructor(StreamErrorKind.THROTTLED)
    overloaded = _Constructor(StreamErrorKind.OVERLOADED)
    network = _Constructor(StreamErrorKind.NETWORK)
    empty_response = _Constructor(StreamErrorKind.EMPTY_RESPONSE)
    timeout = _Constructor(StreamErrorKind.TIMEOUT)
    protocol = _Constructor(StreamErrorKind.PROTOCOL)
    auth = _Constructor(StreamErrorKind.AUTH)
    quota_exhausted = _Constructor(StreamErrorKind.QUOTA_EXHAUSTED)
    context_overflow = _Constructor(StreamErrorKind.CONTEXT_WINDOW_EXCEEDED)
    content_filtered = _Constructor(StreamErrorKind.CONTENT_FILTERED)
    model_not_found = _Constructor(StreamErrorKind.MODEL_NOT_FOUND)
    invalid_request = _Constructor(StreamErrorKind.INVALID_REQUEST)
    unsupported = _Constructor(StreamErrorKind.UNSUPPORTED)
    output_too_large = _Constructor(StreamErrorKind.OUTPUT_TOO_LARGE)
    resource = _Constructor(StreamErrorKind.RESOURCE)
    cancelled = _Constructor(StreamErrorKind.CANCELLED)
    internal = _Constructor(StreamErrorKind.INTERNAL)
    unknown = _Constructor(StreamErrorKind.UNKNOWN)


N = TypeVar("N", int, float)


def _sum(a: N | None, b: N | None) -> N | None:
    """Add two numbers. `None` counts as 0, but if both are `None`, the sum is `None`."""
    return b if a is None else a if b is None else a + b


TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning", "total")
"""The names of the counts of a `Usage`, in order."""

DOLLARS = ("input", "output", "cache_read", "cache_write", "fees", "total")
"""The amounts of a `Cost`."""

INVALID_COST = "the {} cost is not a valid amount"

MOST_TOKENS = 10**12
"""Upper limit of plausible token counts."""


class Usage(Record):
    """The token counts of an answer. A count that the provider did not report is `None`, not 0.

    `input` includes `cache_read` and `cache_write`, and `output` includes `reasoning`, even if the
    provider reports them separately. `total` is the total that the provider reports, or else the
    sum of `input` and `output` if both are known. `extra` contains other quantities that the
    provider reports. `reported` is false until the provider has reported usage.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    total: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    reported: bool = False

    def count(self, name: str, tokens: float) -> bool:
        """Store a token count from a provider; return `False` if it is not a valid count."""
        if not 0 <= tokens <= MOST_TOKENS:
            return False
        setattr(self, name, int(tokens))
        return True

    def added_up(self) -> Usage:
        """Set `total` to `input + output` if the provider reported no total; return the usage."""
        if self.total is None and self.input is not None and self.output is not None:
            self.total = self.input + self.output
        return self

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of two usages; a number that is unknown in both stays unknown.

        Whole numbers in `extra` are counts, such as searches, and are summed. Other values, such as
        a service tier or a rate, are those of `other` if both usages have them.
        """
        return Usage(
            _sum(self.input, other.input),
            _sum(self.output, other.output),
            _sum(self.cache_read, other.cache_read),
            _sum(self.cache_write, other.cache_write),
            _sum(self.reasoning, other.reasoning),
            _sum(self.total, other.total),
            _merged(self.extra, other.extra),
            self.reported or other.reported,
        )

    def __radd__(self, start: int) -> Usage:
        """Return the usage itself, so that `sum()` can add it to its start value 0."""
        return NotImplemented if start else self


def _merged(extra: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = {**extra, **other}
    if not extra or not other:
        return merged
    for name in extra.keys() & other.keys():
        if type(extra[name]) is int and type(other[name]) is int:  # a bool is no count
            merged[name] += extra[name]
    return merged


class Cost(Record):
    """A cost in US dollars, with a part for each kind of token. `None` means unknown.

    `input` is the cost of input tokens that were neither read from nor written to a cache. `fees`
    is the cost of everything that is not priced by tokens, such as searches. `estimated` is true if
    the provider did not report all usage, and the cost of the missing usage was estimated.
    """

    input: Finite | None = None
    output: Finite | None = None
    cache_read: Finite | None = None
    cache_write: Finite | None = None
    total: Finite | None = None
    fees: Finite | None = None
    estimated: bool = False

    @property
    def known(self) -> float | None:
        """The total, or the sum of the known parts if the total is unknown; `None` without any."""
        if self.total is not None:
            return self.total
        parts = (self.input, self.output, self.cache_read, self.cache_write, self.fees)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None

    def __add__(self, other: Cost) -> Cost:
        """Return the sum of two costs.

        The total is the sum of the known costs: if only one of the two totals is known, the known
        parts of the other cost are added to it.
        """
        total, others = self.total, other.total
        if (total is None) is not (others is None):
            total, others = self.known, other.known
        return Cost(
            _sum(self.input, other.input),
            _sum(self.output, other.output),
            _sum(self.cache_read, other.cache_read),
            _sum(self.cache_write, other.cache_write),
            _sum(total, others),
            _sum(self.fees, other.fees),
            self.estimated or other.estimated,
        )

    def __radd__(self, start: int) -> Cost:
        """Return the cost itself, so that `sum()` can add it to its start value 0."""
        return NotImplemented if start else self


def valid_dollars(value: Any) -> float | None:
    """Return an amount of money as a number; `None` unless it is finite and not negative."""
    try:
        amount = float(value)
    except (TypeError, ValueError):
        return None
    return amount if 0.0 <= amount < inf else None


def sound_cost(cost: Cost) -> tuple[Cost, list[str]]:
    """Return a cost without its invalid amounts, and the names of these amounts."""
    wrong = []
    for name in DOLLARS:
        dollars = getattr(cost, name)
        is_number = isinstance(dollars, float | int) and valid_dollars(dollars) is not None
        if dollars is not None and not is_number:
            wrong.append(name)
    return replace(cost, **dict.fromkeys(wrong)) if wrong else cost, wrong


def dollars_of(cost: Cost | None) -> float | None:
    """Return the known dollars of a cost, or `None` if nothing is known."""
    return None if cost is None else cost.known


class Charge(Struct, frozen=True):
    """The charge for one or several attempts.

    `tokens` is the sum of prompt and output tokens. `cost` is in US dollars, or `None` if the price
    is unknown. `estimated` is true if a part of the charge is an estimate, because the provider did
    not report all usage.
    """

    tokens: int = 0
    cost: float | None = 0.0
    estimated: bool = False

    def __add__(self, other: Charge) -> Charge:
        """Return the sum of two charges. An unknown cost counts as 0 if the other one is known."""
        if self.cost is None or other.cost is None:
            cost = other.cost if self.cost is None else self.cost
        else:
            cost = self.cost + other.cost
        return Charge(self.tokens + other.tokens, cost, self.estimated or other.estimated)


NOTHING = Charge()
"""The charge for an attempt whose request was not sent, or was rejected with an HTTP error."""


class Totals(Record):
    """The usage and cost of several attempts, including discarded ones; `None` if unknown."""

    usage: Usage | None = None
    cost: Cost | None = None
    charge: Charge = NOTHING

    def add(self, usage: Usage | None, cost: Cost | None, charge: Charge = NOTHING) -> None:
        """Add the usage, cost and charge of one attempt."""
        if charge is not NOTHING:
            known_charge = self.charge
            self.charge = charge if known_charge is NOTHING else known_charge + charge
        if usage is not None:
            known = self.usage
            self.usage = replace(usage, extra={**usage.extra}) if known is None else known + usage
        if cost is not None:
            self.cost = replace(cost) if self.cost is None else self.cost + cost
