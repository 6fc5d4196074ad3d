"""Which failures a fault of the vendor's may be, by docs/reference/failures.md."""

from __future__ import annotations

from lab.vendor import Exchange, Fault

__all__ = ["EXCEPTIONS", "STATUS_OF_KIND", "cause_of", "kinds_of"]

EXCEPTIONS = {
    "throttled": {"ModelThrottled"},
    "overloaded": {"ModelOverloaded"},
    "network": {"NetworkError"},
    "empty_response": {"EmptyResponse"},
    "timeout": {"StreamTimeout"},
    "protocol": {"ProtocolError"},
    "auth": {"AuthenticationError"},
    "quota_exhausted": {"QuotaExhausted", "LimitReached"},
    "context_window_exceeded": {"ContextWindowExceeded"},
    "content_filtered": {"ContentFiltered"},
    "model_not_found": {"ModelNotFound"},
    "invalid_request": {"InvalidRequest"},
    "unsupported": {"Unsupported"},
    "output_too_large": {"OutputTooLarge"},
    "resource": {"ResourceExhausted"},
    "cancelled": {"StreamAborted"},
    "internal": {"PluginFault"},
    "unknown": {"UnknownFailure"},
}
"""The exception of each kind of failure."""

STATUS_OF_KIND = {
    "throttled": 429,
    "quota_exhausted": 429,
    "overloaded": 503,
    "resource": 503,
    "cancelled": 503,
    "network": 502,
    "protocol": 502,
    "empty_response": 502,
    "output_too_large": 502,
    "auth": 502,
    "unknown": 502,
    "timeout": 504,
    "model_not_found": 404,
    "context_window_exceeded": 400,
    "content_filtered": 400,
    "invalid_request": 400,
    "unsupported": 400,
    "internal": 500,
}
"""The gateway's status for each kind, unless the provider's own is used."""

_BY_FAULT = {
    "rate_limit": {"throttled"},
    "overload": {"overloaded"},
    "server": {"network"},
    "auth": {"auth"},
    "quota": {"quota_exhausted"},
    "overflow": {"context_window_exceeded"},
    "filter": {"content_filtered"},
    "cut": {"network"},
    "reset": {"network"},
    "empty": {"network"},
    "damaged": {"protocol", "network"},
    "garbage": {"protocol", "network"},
    "content_type": {"protocol"},
    "silence": {"timeout"},
    "kill": {"network"},
}
_BY_STATUS = {
    400: {"invalid_request"},
    401: {"auth"},
    402: {"quota_exhausted"},
    403: {"auth"},
    404: {"model_not_found"},
    408: {"network"},
    413: {"invalid_request"},
    422: {"invalid_request"},
    429: {"throttled"},
    503: {"overloaded"},
    529: {"overloaded"},
}

TOO_LONG = "prompt is too long"
"""How the vendor begins to refuse a prompt that is longer than the model's context."""

_VAGUE = ("ollama", "cohere", "converse", "mistral")
"""APIs that give no code, or a vague one, to failures within a stream."""


def cause_of(exchange: Exchange) -> Fault | None:
    """Return the cause of a failure: the exchange's fault, or a prompt longer than the context.

    Return `None` if the exchange had to succeed.
    """
    if exchange.fault is not None:
        return Fault.of(exchange.fault)
    if exchange.ended == "refused" and (exchange.message or "").startswith(TOO_LONG):
        return Fault("overflow")
    return None


def kinds_of(exchange: Exchange) -> set[str]:
    """Return the kinds that a caller may see for an exchange that did not end well."""
    fault = cause_of(exchange)
    if fault is None:
        return {"invalid_request"} if exchange.ended == "refused" else {"network"}
    name = fault.kind
    if name == "status":
        made = set(_BY_STATUS.get(fault.status or 0, {"network"}))
    else:
        made = set(_BY_FAULT[name])
    if name == "quota" and exchange.api in ("generateContent", "ollama", "converse", "cohere"):
        # Their refusals have the same status and code as a limit of the rate.
        made.add("throttled")
    if name == "filter" and exchange.api in (
        "ollama",
        "converse",
        "cohere",
        "mistral",
        "generateContent",
    ):
        made |= {"invalid_request", "auth"}  # no code that a document of theirs has
    if name in ("empty", "content_type") and not exchange.streamed:
        made |= {"protocol", "network"}  # a whole body that is empty or none of the API's
    if exchange.ended == "failed" and exchange.api in _VAGUE:
        made |= {
            "network",
            "unknown",
        }
    if exchange.ended == "failed" and name == "status":
        made |= {"invalid_request", "network"}  # within a stream there is a type, and no status
    if exchange.ended == "failed" and exchange.api == "responses":
        made.add("network")  # a failed response has the code `server_error` unless another is known
    return made
