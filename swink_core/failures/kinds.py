"""A table of the kinds of failure, and a table of the error codes that the core itself sets.

To add a kind, add a member with a docstring to `StreamErrorKind`, a constructor to
`ErrorConstructors`, a row to the table `KINDS`, and a subclass of `StreamError`. The fields of the
row determine how retries, fallbacks, the circuit breaker and the gateway handle the kind. Titles
and resolutions are read by people; the module `advice` fills in the names in braces.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from swink_core.vocabulary.events import Done, Error
from swink_core.vocabulary.outcome import StreamErrorKind as Kind
from swink_core.vocabulary.outcome import for_every_kind

Scope = Literal["request", "answer", "account", "service", "machine", "caller", "plugin", "unknown"]
"""What a failure affects.

`request`: this request, no matter which account sends it. `answer`: this one answer. `account`: the
credentials, so that the next request with them fails as well. `service`: the provider, or the
connection to it. `machine`: this computer. `caller`: the code that reads the stream. `plugin`: the
code of a plugin.
"""


class KindRow(NamedTuple):
    """The properties of a kind of failure.

    `scope` is what the failure affects. `reply` is the HTTP status with which a gateway reports the
    failure to its client (RFC 9110 section 15). `retries` is the default number of retries on the
    same model. `falls_back` says whether the next model of a fallback chain is tried. `healthy` is
    the effect on the circuit breaker: `False` counts as a failure of the target; `True` closes the
    circuit, because the target works and only this request failed; `None` has no effect. `statuses`
    are the HTTP statuses that mean this kind, if the provider does not classify the failure (RFC
    9110 section 15; several providers use 529 for overload).
    """

    title: str
    resolution: str
    scope: Scope
    reply: int
    retries: int = 0
    falls_back: bool = False
    healthy: bool | None = None
    statuses: tuple[int, ...] = ()


KINDS: dict[Kind, KindRow] = for_every_kind("KINDS", {
    Kind.THROTTLED: KindRow(
        "Rate limited by {provider}",
        "{wait} and try again. If it persists, send fewer requests at a time or raise the "
        "account's limits{portal}.",
        scope="account", reply=429, retries=5, falls_back=True, healthy=False, statuses=(429,),
    ),
    Kind.OVERLOADED: KindRow(
        "{provider} is overloaded",
        "The service has no capacity at the moment. Try again later, or name a second model to "
        "fall back to.",
        scope="service", reply=503, retries=5, falls_back=True, healthy=False, statuses=(503, 529),
    ),
    Kind.NETWORK: KindRow(
        "{provider} or the connection to it failed",
        "Check {connection}. If the service is down, try again later.",
        scope="service", reply=502, retries=3, falls_back=True, healthy=False, statuses=(408,),
    ),
    Kind.EMPTY_RESPONSE: KindRow(
        "{provider} sent no usable answer",
        "Try again. If it persists, rephrase the request, raise max_tokens or use another model.",
        scope="answer", reply=502, retries=1, falls_back=True,
    ),
    Kind.TIMEOUT: KindRow(
        "{provider} took too long",
        "Try again, raise the timeout (timeouts=Timeouts(…)), or make the task smaller.",
        scope="service", reply=504, retries=3, falls_back=True, healthy=False,
    ),
    Kind.PROTOCOL: KindRow(
        "{provider} sent something unexpected",
        "Check that the address ({endpoint}) is the right API and that no proxy alters the "
        "answer. If both are right, please report it with a recording.",
        scope="answer", reply=502, retries=1, falls_back=True,
    ),
    Kind.AUTH: KindRow(
        "{provider} does not accept the credentials",
        "Check {variables}. Make a new key{portal} if it has expired or was revoked, and check "
        "that it may use {model}.",
        scope="account", reply=502, statuses=(401, 403),
    ),
    Kind.QUOTA_EXHAUSTED: KindRow(
        "The quota at {provider} is used up",
        "{reset}, add credit or upgrade the plan{portal}, or use another provider.",
        scope="account", reply=429, falls_back=True, healthy=False, statuses=(402,),
    ),
    Kind.CONTEXT_WINDOW_EXCEEDED: KindRow(
        "The conversation is too long for {model}",
        "Shorten or summarise it, or use a model with a larger context window.",
        scope="request", reply=400, healthy=True,
    ),
    Kind.CONTENT_FILTERED: KindRow(
        "{provider} refused the request",
        "A content filter stopped it. Change the conversation, or use another model.",
        scope="request", reply=400, healthy=True,
    ),
    Kind.MODEL_NOT_FOUND: KindRow(
        "Model {model} is not available",
        "Check the name (swink models {name} lists known ones){address} and that the account "
        "may use it{portal}.",
        scope="account", reply=404, falls_back=True, statuses=(404, 410),
    ),
    Kind.INVALID_REQUEST: KindRow(
        "{provider} does not accept the request",
        "Correct the value that the message names. Options in extra= are sent unchanged.",
        scope="request", reply=400, healthy=True, statuses=(400, 405, 406, 413, 415, 422),
    ),
    Kind.UNSUPPORTED: KindRow(
        "{model} does not support the request",
        "Leave the feature out, or use a model that supports it.",
        scope="request", reply=400, falls_back=True,
    ),
    Kind.OUTPUT_TOO_LARGE: KindRow(
        "The answer grew too large", "Raise max_output_chars, or lower max_tokens.",
        scope="request", reply=502,
    ),
    Kind.RESOURCE: KindRow(
        "This machine ran out of a resource",
        "Close unused files and programs; raise the limit on open files (ulimit -n) or the memory "
        "available; look for streams that are never closed.",
        scope="machine", reply=503, retries=2, falls_back=True,
    ),
    Kind.CANCELLED: KindRow(
        "Stopped before the end", "The partial message contains the text received so far.",
        scope="caller", reply=503,
    ),
    Kind.INTERNAL: KindRow(
        "A plugin failed",
        "This is a bug in the plugin: please report it with the message above.",
        scope="plugin", reply=500,
    ),
    Kind.UNKNOWN: KindRow(
        "{provider} failed",
        "The failure is unknown: see the message, and the log at DEBUG level.",
        scope="unknown", reply=502,
    ),
})  # fmt: skip


class CodeRow(NamedTuple):
    """One of the core's own error codes, with the kind of failure it belongs to.

    If `title` or `resolution` is `None`, the text of the failure kind is used. `most_retries` is
    the maximum number of retries after this failure, even if the retry policy allows more; `None`
    means that only the policy limits the retries. `unsent` means that the provider cannot have
    received the request.
    """

    meaning: str
    kind: Kind
    title: str | None = None
    resolution: str | None = None
    most_retries: int | None = None
    unsent: bool = False


CODES: dict[str, CodeRow] = {
    "connection_refused": CodeRow(
        "nothing listens at the address", Kind.NETWORK,
        "Cannot connect to {provider}",
        "Nothing listens at {endpoint}. Check the address, that the service is running, and the "
        "firewall.",
        most_retries=1, unsent=True,
    ),
    "dns": CodeRow(
        "the host's name does not resolve", Kind.NETWORK,
        "Cannot find {provider}",
        "The host of {endpoint} does not resolve. Check the base URL and the network's DNS.",
        most_retries=1, unsent=True,
    ),
    "tls": CodeRow(
        "no TLS, or a certificate that is not accepted", Kind.NETWORK,
        "No secure connection to {provider}",
        "The certificate of {endpoint} was not accepted. Check the address, the clock and the "
        "installed certificates.",
        most_retries=0, unsent=True,
    ),
    "stale": CodeRow("a pooled connection that the server had closed", Kind.NETWORK, unsent=True),
    "disconnected": CodeRow("closed before an answer", Kind.NETWORK),
    "connection": CodeRow("reset, or closed in the middle of a body", Kind.NETWORK),
    "cut": CodeRow("the body ends before the provider completed its answer", Kind.NETWORK),
    "connect": CodeRow("no connection within `connect`", Kind.TIMEOUT, unsent=True),
    "first_event": CodeRow("no event within `first_event`", Kind.TIMEOUT, most_retries=1),
    "idle": CodeRow("no byte within `idle`, after the first event", Kind.TIMEOUT),
    "no_progress": CodeRow("only keep-alives within `no_progress`", Kind.TIMEOUT),
    "throughput": CodeRow("slower than `min_chars_per_second` over `window`", Kind.TIMEOUT),
    "total": CodeRow("the whole call took longer than `total`", Kind.TIMEOUT, most_retries=0),
    "total_of_model": CodeRow(
        "a model of a fallback chain took longer than the `total` in its options",
        Kind.TIMEOUT, most_retries=0,
    ),
    "circuit_open": CodeRow(
        "a model of a fallback chain keeps failing and is skipped", Kind.OVERLOADED,
        most_retries=0, unsent=True,
    ),
    "empty_response": CodeRow("completed with neither text nor a tool call", Kind.EMPTY_RESPONSE),
    "content_type": CodeRow("a 200 that is not a stream: a proxy's page", Kind.PROTOCOL),
    "encoding": CodeRow("a content encoding that cannot be decoded", Kind.PROTOCOL),
    "http": CodeRow("not HTTP", Kind.PROTOCOL),
    "redirect": CodeRow(
        "a redirect", Kind.PROTOCOL,
        "{provider} redirects elsewhere",
        "Redirects are not followed, because they would pass on the API key. If you trust the "
        "address in the message, set the base URL to it.",
        most_retries=0,
    ),
    "damaged_frame": CodeRow(
        "a damaged frame that may have contained content", Kind.PROTOCOL,
        "The answer of {provider} was damaged",
        "A part of it may be lost. Try again, and check that no proxy alters the answer; "
        'malformed="skip" accepts the rest as the answer.',
    ),
    "malformed": CodeRow("too many malformed frames", Kind.PROTOCOL),
    "frame": CodeRow("a frame longer than the decoder accepts", Kind.PROTOCOL),
    "grammar": CodeRow(
        "events of a plugin that violate the event protocol", Kind.PROTOCOL,
        "A plugin sent invalid events",
        "This is a bug in the plugin that the message names: please report it.",
        most_retries=0,
    ),
    "bad_event": CodeRow(
        "a gateway's event that is not valid", Kind.PROTOCOL, most_retries=0
    ),
    "no_credentials": CodeRow(
        "no credentials are set", Kind.AUTH,
        "No credentials for {provider}", "Set {variables}, or pass api_key=…{portal}.",
        unsent=True,
    ),
    "no_variable": CodeRow(
        "an environment variable that the provider needs is not set", Kind.AUTH,
        "A variable for {provider} is not set", "Set the variable that the message names.",
        unsent=True,
    ),
    "retired": CodeRow(
        "the model's date of retirement has passed", Kind.MODEL_NOT_FOUND, unsent=True
    ),
    "url": CodeRow("the base URL is not an address", Kind.INVALID_REQUEST, unsent=True),
    "no_base_url": CodeRow("no base URL is set", Kind.INVALID_REQUEST, unsent=True),
    "proxy": CodeRow("the proxy's URL is not an address", Kind.INVALID_REQUEST, unsent=True),
    "header": CodeRow("a header that HTTP cannot carry", Kind.INVALID_REQUEST, unsent=True),
    "download": CodeRow("media was not downloaded", Kind.INVALID_REQUEST, unsent=True),
    "size": CodeRow("the answer is longer than `max_output_chars`", Kind.OUTPUT_TOO_LARGE),
    "blocks": CodeRow("the answer has too many blocks", Kind.OUTPUT_TOO_LARGE),
    "no_descriptors": CodeRow(
        "no file descriptor", Kind.RESOURCE,
        "Too many open files",
        "Idle connections were closed. If it persists, raise the limit (ulimit -n) "
        "and look for streams that are never closed.",
        unsent=True,
    ),
    "no_memory": CodeRow(
        "no memory", Kind.RESOURCE,
        "Memory ran out",
        "The next attempt does not stream, if the provider allows it. If it persists, lower "
        "max_tokens, shorten the conversation or make more memory available.",
    ),
    "closed": CodeRow("stopped by the caller", Kind.CANCELLED),
    "plugin": CodeRow("a plugin raised", Kind.INTERNAL),
    "token": CodeRow(
        "the token service issued no token", Kind.AUTH,
        "No token was issued",
        "Check the credentials that are exchanged for it, and the address of the token service.",
        unsent=True,
    ),
    "answer": CodeRow(
        "an answer of an unexpected form", Kind.PROTOCOL,
        "The answer does not have the expected form",
        "Check the address: another service may answer there.",
    ),
    "body": CodeRow(
        "a plugin returned no body", Kind.INTERNAL,
        "A plugin returned no request body",
        "Let the plugin's convert_messages return the JSON body of the request, a dict.",
        unsent=True,
    ),
    "limit": CodeRow(
        "the attempt would exceed a limit of the caller (`Limits`)", Kind.QUOTA_EXHAUSTED,
        "The limit is reached",
        "Raise the limit, lower max_tokens, or send a shorter prompt.",
        most_retries=0, unsent=True,
    ),
    "gate": CodeRow(
        "a gate raised", Kind.INTERNAL,
        "A gate raised an exception",
        "Correct the gate. To refuse a target on purpose, raise ProviderFailure or a StreamError, "
        "for example QuotaExhausted.",
        unsent=True,
    ),
}  # fmt: skip
"""The core's error codes; providers use other codes.

Two kinds of codes are not in this table: the code of a failure of the kind `unsupported` is the
name of the feature, and a plugin may set its own code for a failure that it detects.
"""

NOT_SENT = ("No request was sent to {provider}", "Correct the value that the message names.")
"""The title and resolution of an invalid request that was not sent."""

STALE = "stale"
"""The code of a failure on a pooled connection that the server had already closed."""


_OF_THE_CALLER = frozenset({STALE, "limit"})
"""Codes of failures that do not show whether the target works.

They are the codes for a stale connection and for a limit that the caller set.
"""


def health_of(terminal: Done | Error) -> bool | None:
    """Return whether a target (a model with its options) works, judged by an attempt's last event.

    `False`: the target failed; a circuit breaker counts this failure. `True`: the target answered,
    even if it rejected this request. `None`: the event does not show whether the target works.
    """
    if isinstance(terminal, Done):
        return True
    if terminal.code in _OF_THE_CALLER:
        return None
    return KINDS[terminal.error_kind or Kind.UNKNOWN].healthy


def most_retries(code: str | None) -> int | None:
    """Return the maximum number of retries after a failure with this code; `None`: no maximum."""
    row = CODES.get(code or "")
    return row.most_retries if row is not None else None
