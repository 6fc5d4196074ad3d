"""Write the title and the resolution of a failure, from the texts for its kind.

These texts name the provider, the model, the environment variable of the API key and the web page
on which the key is created, if they are known.
"""

from __future__ import annotations

import math

from swink_core.failures.failure import Failure
from swink_core.failures.kinds import CODES, KINDS, NOT_SENT
from swink_core.vocabulary.models import Model, ProviderInfo
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

OWN = "the process on this machine and its network connection"
"""Error texts name this as the possible cause if a provider has no server address."""


def advise(
    kind: Kind,
    failure: Failure,
    model: Model,
    info: ProviderInfo | None = None,
    endpoint: str | None = None,
    retry_after: float | None = None,
) -> tuple[str, str]:
    """Return the title and resolution of a classified failure; `retry_after` is in seconds.

    If the failure itself has a title or a resolution, that text is returned.
    """
    row = KINDS[kind]
    said = failure.message or ""
    title = row.title
    resolution = row.resolution
    not_sent = failure.status is None and failure.phase in ("connect", "request")
    if not_sent and failure.kind is Kind.INVALID_REQUEST:
        title, resolution = NOT_SENT
    if failure.kind is not None and failure.code in CODES:  # other codes come from the provider
        special = CODES[failure.code]
        title = special.title or title
        resolution = special.resolution or resolution
    wait = duration_text(retry_after) if retry_after else None
    words = {
        "provider": (info.title if info else "") or model.provider,
        "name": model.provider,
        "model": str(model),
        "endpoint": endpoint or "the provider's address",
        "connection": f"the network connection and the address ({endpoint})" if endpoint else OWN,
        "address": f", the address ({endpoint})" if endpoint and model.id not in said else "",
        "variables": " or ".join(info.api_key_env) if info and info.api_key_env else "the API key",
        "portal": f" ({info.portal})" if info and info.portal else "",
        "wait": f"Wait {wait}" if wait else "Wait a moment",
        "reset": f"Wait {wait}" if wait else "Wait for the reset",
    }
    title = failure.title or title.format(**words)
    resolution = failure.resolution or resolution.format(**words)
    return title, resolution


def duration_text(seconds: float) -> str:
    """Format a waiting time for people, in at most two units: `2 h 5 min`."""
    whole = math.ceil(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    parts = [(days, "d"), (hours, "h"), (rest // 60, "min"), (rest % 60, "s")]
    while parts and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count) or "a moment"
