"""What each client protocol cannot carry of an answer, as data: a row for each, with its reason.

Between two protocols that is lost what the one says and the other has no field for. All that swink
itself knows passes between any two; so what is lost from A to B is what B's rows say, as far as A
could say it. A row names the type of B's published schema, or the field of it, that would have to
have room, as the vendor's own SDK calls it. What is sealed is not lost: it comes back with the
client's next request.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ANSWER_METADATA", "BORDERS", "BROKEN_CALLS", "COST_PARTS", "COUNTS", "CUT_CALLS",
    "EXTENSIONS", "EXTENSIONS_AND_IMAGES", "GENERATED", "IDS", "LAST_TEXT_METADATA", "ORDER",
    "PAUSE", "RAW_ARGUMENTS", "RETRY", "SIGNATURES", "TEXT_METADATA", "Loss",
]  # fmt: skip


class Loss(NamedTuple):
    """What a protocol cannot carry, and the type of its schema, or field, without room for it."""

    what: str
    section: str


ORDER = "order of blocks, and where one text ends and the next begins"
BORDERS = "where one text ends and the next begins"
SIGNATURES = "signatures and other opaque data of thinking and calls"
EXTENSIONS = "server-side tools and other opaque blocks of other providers"
EXTENSIONS_AND_IMAGES = (
    "server-side tools, generated images and other opaque blocks of other providers"
)
GENERATED = "images that another provider generated, which clients get as sealed text"
TEXT_METADATA = "facts of a text that the protocol has no field for"
LAST_TEXT_METADATA = "facts of the text that ends an answer, beside its sources"
ANSWER_METADATA = "facts of a whole answer that the protocol has no field for"
COST_PARTS = "parts of the cost; its total stands beside the counts"
PAUSE = "that the provider wants to be called again"
RETRY = "a restart after words were shown, which is told as a failure"
RAW_ARGUMENTS = "arguments that are no JSON; their text is the field `INVALID_JSON` of an object"
BROKEN_CALLS = "a call whose arguments are no JSON, which is told in words"
CUT_CALLS = "that a call was cut off before its arguments, beside why the answer ended"
COUNTS = "counts of tokens that the protocol has no field for"
IDS = "the id of a call, for clients that know the schema alone"
