"""The kinds of failure, a row each: title, advice, retries, fallback, statuses.

A new kind is a member of `StreamErrorKind` with its docstring, a row here, and a subclass of
`StreamError`. Titles and resolutions are for people; `advice` fills in their names in braces.
"""

from __future__ import annotations

from typing import NamedTuple

from swink_core.vocabulary.events import Done, Error
from swink_core.vocabulary.outcome import StreamErrorKind as Kind


class KindRow(NamedTuple):
    """A kind's facts.

    `retries` is how often an attempt that failed so is made again on its model, unless the policy
    says otherwise. `falls_back`: the next model of a chain is tried. `healthy` is what the kind
    says of the target to the circuit breaker: `False` counts against it, `True` (the fault is
    this one request's) closes its circuit, `None` says nothing. `statuses` are the HTTP statuses
    that mean this kind where the provider has not said more (RFC 9110 section 15; 529 is what
    several providers use for overload).
    """

    title: str
    resolution: str
    retries: int = 0
    falls_back: bool = False
    healthy: bool | None = None
    statuses: tuple[int, ...] = ()


KINDS: dict[Kind, KindRow] = {
    Kind.THROTTLED: KindRow(
        "Rate limited by {provider}",
        "{wait} and try again. If it persists, send fewer requests at a time or raise the "
        "account's limits{portal}.",
        retries=5, falls_back=True, healthy=False, statuses=(429,),
    ),
    Kind.OVERLOADED: KindRow(
        "{provider} is overloaded",
        "The service has no capacity just now. Try again later, or name a second model to "
        "fall back to.",
        retries=5, falls_back=True, healthy=False, statuses=(503, 529),
    ),
    Kind.NETWORK: KindRow(
        "{provider} or the connection to it failed",
        "Check {connection}. If the service is down, try again later.",
        retries=3, falls_back=True, healthy=False, statuses=(408,),
    ),
    Kind.EMPTY_RESPONSE: KindRow(
        "{provider} sent no usable answer",
        "Try again. If it persists, rephrase the request, raise max_tokens or use another model.",
        retries=1, falls_back=True,
    ),
    Kind.TIMEOUT: KindRow(
        "{provider} took too long",
        "Try again, raise the limit that passed (timeouts=Timeouts(…)), or make the task smaller.",
        retries=3, falls_back=True, healthy=False,
    ),
    Kind.PROTOCOL: KindRow(
        "{provider} sent something unexpected",
        "Check that the address ({endpoint}) is the right API and that no proxy alters the "
        "answer. If both are right, please report it with a recording.",
        retries=1, falls_back=True,
    ),
    Kind.AUTH: KindRow(
        "{provider} does not accept the credentials",
        "Check {variables}. Make a new key{portal} if it has expired or was revoked, and check "
        "that it may use {model}.",
        statuses=(401, 403),
    ),
    Kind.QUOTA_EXHAUSTED: KindRow(
        "The quota at {provider} is used up",
        "{reset}, add credit or upgrade the plan{portal}, or use another provider.",
        falls_back=True, healthy=False, statuses=(402,),
    ),
    Kind.CONTEXT_WINDOW_EXCEEDED: KindRow(
        "The conversation is too long for {model}",
        "Shorten or summarise it, or use a model with a larger context window.",
        healthy=True,
    ),
    Kind.CONTENT_FILTERED: KindRow(
        "{provider} refused the request",
        "A content filter stopped it. Change the conversation, or use another model.",
        healthy=True,
    ),
    Kind.MODEL_NOT_FOUND: KindRow(
        "Model {model} is not available",
        "Check the name (swink models {name} lists known ones){address} and that the account "
        "may use it{portal}.",
        falls_back=True, statuses=(404, 410),
    ),
    Kind.INVALID_REQUEST: KindRow(
        "{provider} does not accept the request",
        "Change what the message names. Options in extra= go to the provider as they are.",
        healthy=True, statuses=(400, 405, 406, 413, 415, 422),
    ),
    Kind.UNSUPPORTED: KindRow(
        "{model} cannot do that",
        "Leave the feature out, or use a model that has it.",
        falls_back=True,
    ),
    Kind.OUTPUT_TOO_LARGE: KindRow(
        "The answer grew too large", "Raise max_output_chars, or lower max_tokens."
    ),
    Kind.RESOURCE: KindRow(
        "This machine ran out of something",
        "Close what is not needed; raise the limit on open files (ulimit -n) or the memory "
        "available; look for streams that are never closed.",
        retries=2, falls_back=True,
    ),
    Kind.CANCELLED: KindRow(
        "Stopped before the end", "What had arrived is kept in the partial message."
    ),
    Kind.INTERNAL: KindRow(
        "A plugin failed",
        "This is a bug in the plugin: please report it with the message above.",
    ),
    Kind.UNKNOWN: KindRow(
        "{provider} failed",
        "Nothing is known of this failure: see the message, and the log at DEBUG level.",
    ),
}  # fmt: skip


class CodeRow(NamedTuple):
    """What differs from its kind for one of the core's own codes; `None`: nothing.

    `most_retries` bounds the retries, whatever the policy allows more, after failures that rarely
    pass by themselves.
    """

    title: str | None = None
    resolution: str | None = None
    most_retries: int | None = None


CODES: dict[str, CodeRow] = {
    "connection_refused": CodeRow(
        "Cannot connect to {provider}",
        "Nothing listens at {endpoint}. Check the address, that the service is running, and the "
        "firewall.",
        most_retries=1,
    ),
    "dns": CodeRow(
        "Cannot find {provider}",
        "The host of {endpoint} does not resolve. Check the base URL and the network's DNS.",
        most_retries=1,
    ),
    "tls": CodeRow(
        "No secure connection to {provider}",
        "The certificate of {endpoint} was not accepted. Check the address, the clock and the "
        "installed certificates.",
        most_retries=0,
    ),
    "first_event": CodeRow(most_retries=1),
    "total": CodeRow(most_retries=0),
    "no_credentials": CodeRow(
        "No credentials for {provider}", "Set {variables}, or pass api_key=…{portal}."
    ),
    "no_descriptors": CodeRow(
        "Too many open files",
        "Connections that nobody used were closed. If it persists, raise the limit (ulimit -n) "
        "and look for streams that are never closed.",
    ),
    "no_memory": CodeRow(
        "Memory ran out",
        "Where the provider can answer whole, that is asked for next. If it persists, lower "
        "max_tokens, shorten the conversation or make more memory available.",
    ),
    "redirect": CodeRow(
        "{provider} redirects elsewhere",
        "Redirects are not followed, since they would hand over the key. Set the base URL to "
        "the address that the message names, if you trust it.",
        most_retries=0,
    ),
    "damaged_frame": CodeRow(
        "The answer of {provider} came damaged",
        "A part of it may be lost. Try again, and check that no proxy alters the answer; "
        'malformed="skip" takes what came for the answer.',
    ),
    "bad_event": CodeRow(most_retries=0),
    "gate": CodeRow(
        "A gate raised an exception",
        "Correct the gate. To refuse a target on purpose, raise ProviderFailure or a StreamError, "
        "for example QuotaExhausted.",
    ),
    "grammar": CodeRow(
        "A plugin broke the rules of events",
        "This is a bug in what the message names: please report it.",
        most_retries=0,
    ),
}

NOT_ASKED = CodeRow("{provider} was not asked", "Correct what the message names: nothing was sent.")
"""Of a call that something here stands in the way of."""

CORE = "core:"
"""How the rules begin that name a code, or a kind, of the core's own."""


STALE = CORE + "stale"
"""The rule of a failure on a pooled connection that the server had already closed."""


def health_of(terminal: Done | Error) -> bool | None:
    """Judge the health of a target by the end of an attempt on it.

    `False`: the target failed, which counts towards a circuit breaker's threshold. `True`: the
    target answered, even if it rejected this request. `None`: the end shows neither.
    """
    if isinstance(terminal, Done):
        return True
    if terminal.rule == STALE:
        return None
    return KINDS[terminal.error_kind or Kind.UNKNOWN].healthy


def most_retries(rule: str | None) -> int | None:
    """Return the bound that a rule sets on retries; `None` where it sets none."""
    code = (rule or "").removeprefix(CORE)
    return CODES[code].most_retries if code != rule and code in CODES else None
