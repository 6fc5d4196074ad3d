"""Read the metadata of a response, and the reason why it is incomplete."""

from __future__ import annotations

from swink_core import StopReason
from swink_core.providers import EventWriter
from swink_provider_openai.responses.wire import Response

__all__ = ["cut_short", "kept_long", "note_facts"]

DETAILS = "input_tokens_details"
LONG = "cache_write_long"
TWELVE_HOURS = "12h"

FACTS = (
    "service_tier", "system_fingerprint", "moderation", "provider", "content_filters",
    "conversation", "metadata",
)  # fmt: skip
"""Fields of a response that become metadata of the message, unchanged."""

INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.CONTENT_FILTER,
}
"""The stop reason for each value of `incomplete_details.reason`."""


def note_facts(response: Response, out: EventWriter) -> None:
    """Store the metadata of a response."""
    out.response(metadata={name: fact for name in FACTS if (fact := getattr(response, name))})


def kept_long(response: Response) -> dict[str, int]:
    """Return the number of prompt tokens that were cached for twelve hours, under the key `LONG`.

    Return an empty dictionary if the response does not contain the lifetime of the cache. Source:
    OpenAI's guide "Prompt caching".
    """
    said, details = response.prompt_cache_options, (response.usage or {}).get(DETAILS)
    if not isinstance(said, dict) or not isinstance(details, dict) or "ttl" not in said:
        return {}
    written = details.get("cache_write_tokens")
    return {LONG: written if said["ttl"] == TWELVE_HOURS and isinstance(written, int) else 0}


def cut_short(response: Response, out: EventWriter) -> StopReason:
    """Return the stop reason of an incomplete answer."""
    word = str((response.incomplete_details or {}).get("reason"))
    reason = INCOMPLETE.get(word)
    if reason is None:
        out.notice("stop_reason", f"the answer is incomplete for an unknown reason: {word}")
    return reason or StopReason.LENGTH
