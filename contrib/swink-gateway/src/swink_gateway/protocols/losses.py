"""The losses of each client protocol: data of answers that the protocol cannot represent, and why.

A conversion from protocol A to protocol B loses data if A can express the data and B has no field
for it. Everything else that swink models passes between any two protocols, so the losses from A to
B are the rows of B whose data A can express. A row names the type in B's published schema that
lacks a field for the data, as the vendor's SDK names this type. Sealed data (see `sealing`) is not
lost: the client sends it back with its next request.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ANSWER_METADATA", "BORDERS", "BROKEN_CALLS", "COST_PARTS", "COUNTS", "CUT_CALLS",
    "EXTENSIONS", "EXTENSIONS_AND_IMAGES", "GENERATED", "IDS", "LAST_TEXT_METADATA", "ORDER",
    "PAUSE", "RAW_ARGUMENTS", "RETRY", "SIGNATURES", "TEXT_METADATA", "Loss",
]  # fmt: skip


class Loss(NamedTuple):
    """A part of an answer that a protocol cannot represent, and the type in its schema."""

    what: str
    section: str


ORDER = "order of blocks, and where one text ends and the next begins"
BORDERS = "where one text ends and the next begins"
SIGNATURES = "signatures and other opaque data of thinking and calls"
EXTENSIONS = "server-side tools and other opaque blocks of other providers"
EXTENSIONS_AND_IMAGES = (
    "server-side tools, generated images and other opaque blocks of other providers"
)
GENERATED = "images that another provider generated, which clients receive as encoded text"
TEXT_METADATA = "metadata of a text that the protocol has no field for"
LAST_TEXT_METADATA = "metadata of the last text of an answer, except its sources"
ANSWER_METADATA = "metadata of an answer that the protocol has no field for"
COST_PARTS = "parts of the cost; the total is reported with the token counts"
PAUSE = "the provider's request to be called again"
RETRY = "a restart after output was delivered, which is reported as a failure"
RAW_ARGUMENTS = "arguments that are not valid JSON; an object has their text in `INVALID_JSON`"
BROKEN_CALLS = "a call with arguments that are not valid JSON, which is reported as text"
CUT_CALLS = "calls cut off before their arguments, except for the finish reason"
COUNTS = "token counts that the protocol has no field for"
IDS = "the id of a call, for clients that use only fields of the schema"
