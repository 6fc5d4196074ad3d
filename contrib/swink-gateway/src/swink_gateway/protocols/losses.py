"""The losses of each client protocol: data of answers that the protocol cannot represent, and why.

A conversion from protocol A to protocol B loses data if A can express the data and B has no field
for it. All other data that swink represents can be converted between any two protocols. Therefore,
the losses from A to B are the rows of B whose data A can express. A row names the type of B's
published schema in which a field for the data is missing; the name is the one in the vendor's SDK.
Sealed data (see `sealing`) is not lost: the client sends it back with its next request.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ANSWER_METADATA", "BORDERS", "BROKEN_CALLS", "COST_PARTS", "COUNTS", "CUT_CALLS",
    "EXTENSIONS", "EXTENSIONS_AND_IMAGES", "GENERATED", "IDS", "LAST_TEXT_METADATA", "ORDER",
    "PAUSE", "RAW_ARGUMENTS", "RETRY", "SIGNATURES", "TEXT_METADATA", "Loss",
]  # fmt: skip


class Loss(NamedTuple):
    """A loss of a protocol: `what` is data of an answer for which the protocol has no field.

    `section` is the type or field of the vendor's schema in which a place for the data is missing,
    such as `CompletionUsage`.
    """

    what: str
    section: str


ORDER = "the order of blocks, and the boundaries between consecutive texts"
BORDERS = "the boundaries between consecutive texts"
SIGNATURES = "signatures and other opaque data of reasoning and tool calls"
EXTENSIONS = "blocks for server-side tools, and other opaque blocks of other providers"
EXTENSIONS_AND_IMAGES = (
    "blocks for server-side tools, generated images and other opaque blocks of other providers"
)
GENERATED = "images that another provider generated (clients receive them as encoded text)"
TEXT_METADATA = "metadata of texts, if the protocol has no field for the metadata"
LAST_TEXT_METADATA = "metadata of the last text of an answer, except the sources of the text"
ANSWER_METADATA = "metadata of answers, if the protocol has no field for the metadata"
COST_PARTS = "the parts of the cost; only the total cost is reported, next to the token counts"
PAUSE = "a finish reason with which the provider requests another call to continue the answer"
RETRY = "a restart of the answer after output was delivered (clients receive an error)"
RAW_ARGUMENTS = (
    "tool call arguments that are not valid JSON (clients receive their text in the field "
    "`INVALID_JSON` of an object)"
)
BROKEN_CALLS = "tool calls whose arguments are not valid JSON (clients receive them as text)"
CUT_CALLS = "tool calls whose arguments were cut off (clients receive only the finish reason)"
COUNTS = "token counts for which the protocol has no field"
IDS = "the id of a tool call, for clients that use only fields of the schema"
