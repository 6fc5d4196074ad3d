"""What to tell people: a title for every kind of failure, and what to do about it.

Texts name the provider, the model, the variable to set and the place to look, as far as they
are known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from swink_core.failures.failure import Failure
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.outcome import StreamErrorKind as Kind


class Advice(NamedTuple):
    """What happened in a few words, and what to do."""

    title: str
    resolution: str


_ADVICE: dict[Kind, Advice] = {
    Kind.THROTTLED: Advice(
        "Rate limited by {provider}",
        "{wait} and try again. If it persists, send fewer requests at a time or raise the "
        "account's limits{portal}.",
    ),
    Kind.OVERLOADED: Advice(
        "{provider} is overloaded",
        "The service has no capacity just now. Try again later, or name a second model to "
        "fall back to.",
    ),
    Kind.NETWORK: Advice(
        "Connection to {provider} failed",
        "Check the network connection and the address ({endpoint}). If the service is down, "
        "try again later.",
    ),
    Kind.EMPTY_RESPONSE: Advice(
        "{provider} sent an empty answer",
        "Try again. If it persists, rephrase the request, raise max_tokens or use another model.",
    ),
    Kind.TIMEOUT: Advice(
        "{provider} took too long",
        "Try again, raise the limit that passed (timeouts=Timeouts(…)), or make the task smaller.",
    ),
    Kind.PROTOCOL: Advice(
        "{provider} sent something unexpected",
        "Check that the address ({endpoint}) is the right API and that no proxy alters the "
        "answer. If both are right, please report it with a recording.",
    ),
    Kind.AUTH: Advice(
        "{provider} does not accept the credentials",
        "Check {variables}. Make a new key{portal} if it has expired or was revoked, and check "
        "that it may use {model}.",
    ),
    Kind.QUOTA_EXHAUSTED: Advice(
        "The quota at {provider} is used up",
        "{reset}, add credit or upgrade the plan{portal}, or use another provider.",
    ),
    Kind.CONTEXT_WINDOW_EXCEEDED: Advice(
        "The conversation is too long for {model}",
        "Shorten or summarise it, or use a model with a larger context window.",
    ),
    Kind.CONTENT_FILTERED: Advice(
        "{provider} refused the request",
        "A content filter stopped it. Change the conversation, or use another model.",
    ),
    Kind.MODEL_NOT_FOUND: Advice(
        "Model {model} is not available",
        "Check the name (swink models {name} lists known ones) and that the account may use "
        "it{portal}.",
    ),
    Kind.INVALID_REQUEST: Advice(
        "{provider} does not accept the request",
        "Change what the message names. Options in extra= go to the provider as they are.",
    ),
    Kind.UNSUPPORTED: Advice(
        "{model} cannot do that",
        "Leave the feature out, or use a model that has it.",
    ),
    Kind.OUTPUT_TOO_LARGE: Advice(
        "The answer grew too large",
        "Raise max_output_chars, or lower max_tokens.",
    ),
    Kind.RESOURCE: Advice(
        "This machine ran out of something",
        "Close what is not needed; raise the limit on open files (ulimit -n) or the memory "
        "available; look for streams that are never closed.",
    ),
    Kind.CANCELLED: Advice(
        "Stopped before the end",
        "What had arrived is kept in the partial message.",
    ),
    Kind.INTERNAL: Advice(
        "A plugin failed",
        "This is a bug in the plugin: please report it with the message above.",
    ),
    Kind.UNKNOWN: Advice(
        "{provider} failed",
        "Nothing is known of this failure: see the message, and the log at DEBUG level.",
    ),
}

_BY_CODE: dict[str, Advice] = {
    "connection_refused": Advice(
        "Cannot connect to {provider}",
        "Nothing listens at {endpoint}. Check the address, that the service is running, and the "
        "firewall.",
    ),
    "dns": Advice(
        "Cannot find {provider}",
        "The host of {endpoint} does not resolve. Check the base URL and the network's DNS.",
    ),
    "tls": Advice(
        "No secure connection to {provider}",
        "The certificate of {endpoint} was not accepted. Check the address, the clock and the "
        "installed certificates.",
    ),
    "no_credentials": Advice(
        "No credentials for {provider}",
        "Set {variables}, or pass api_key=…{portal}.",
    ),
    "no_descriptors": Advice(
        "Too many open files",
        "Connections that nobody used were closed. If it persists, raise the limit (ulimit -n) "
        "and look for streams that are never closed.",
    ),
    "no_memory": Advice(
        "Memory ran out",
        "Where the provider can answer whole, that is asked for next. If it persists, lower "
        "max_tokens, shorten the conversation or make more memory available.",
    ),
    "redirect": Advice(
        "{provider} redirects elsewhere",
        "Redirects are not followed, since they would hand over the key. Set the base URL to "
        "the address that the message names, if you trust it.",
    ),
}


def advise(
    kind: Kind,
    failure: Failure,
    model: Model,
    info: ProviderInfo | None = None,
    endpoint: str | None = None,
    retry_after: float | None = None,
) -> Advice:
    """Return title and resolution for a classified failure; `retry_after` in seconds.

    What the failure itself says of either comes first.
    """
    advice = _ADVICE[kind]
    if (failure.code in _BY_CODE and failure.status is None) or failure.code == "redirect":
        advice = _BY_CODE[failure.code or ""]
    portal = info.portal if info else None
    wait = duration_text(retry_after) if retry_after else None
    words = {
        "provider": (info.title if info else "") or model.provider,
        "name": model.provider,
        "model": str(model),
        "endpoint": endpoint or "the provider's address",
        "variables": " or ".join(info.api_key_env) if info and info.api_key_env else "the API key",
        "portal": f" ({portal})" if portal else "",
        "wait": f"Wait {wait}" if wait else "Wait a moment",
        "reset": f"Wait {wait}" if wait else "Wait for the reset",
    }
    return Advice(
        failure.title or advice.title.format(**words),
        failure.resolution or advice.resolution.format(**words),
    )


def duration_text(seconds: float) -> str:
    """Write a wait for people, in its largest unit and the next: `2 h 5 min`."""
    whole = math.ceil(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    parts = [(days, "d"), (hours, "h"), (rest // 60, "min"), (rest % 60, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count) or "a moment"
