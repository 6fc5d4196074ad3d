"""Functions and a base class that the encoders of several protocols share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swink_core import (
    AssistantMessageEvent,
    Cost,
    Done,
    Error,
    Retry,
    StopReason,
    TextEnd,
    ThinkingEnd,
    ToolCallBlock,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from swink_gateway.protocols import Facts, Known
from swink_gateway.protocols.failures import EMPTY, why_again
from swink_gateway.protocols.frames import encode

__all__ = ["REFUSAL", "EventEncoder", "arguments_text", "as_vendors_end", "cost_data", "cut_short"]
__all__ += ["id_of", "is_refusal", "model_of", "started_anew"]

DECIMALS = 12
"""Decimal places of a dollar amount; further digits are rounding noise of sums."""

_ENDS = (TextEnd, ThinkingEnd, ToolCallEnd)

REFUSAL = "refusal"
"""The code of the notice before a text in which the model refuses to answer."""


def is_refusal(metadata: Mapping[str, Any] | None) -> bool:
    """Return True if an API of OpenAI marks a text as a refusal."""
    said = metadata or {}
    item = said.get("item")
    return said.get("refusal") is True or (isinstance(item, dict) and item.get("refused") is True)


def cost_data(cost: Cost | None) -> dict[str, float]:
    """Return the cost of an answer in US dollars, if it is known."""
    return {} if cost is None or cost.total is None else {"cost": round(cost.total, DECIMALS)}


class EventEncoder:
    """Encodes an answer event by event; the first event of a type in `saying` begins the answer.

    `ended`: the end of the answer has been written. `_begun`: the beginning of the answer has been
    written. The end of a tool call without arguments is held back until another event follows or
    the answer ends, because the call may have been cut off before its first argument. `_cut`: the
    call whose end is being written was cut off before its first argument.
    """

    has_statuses = True

    def __init__(self, saying: frozenset[type]) -> None:
        self.ended = False
        self._begun = False
        self._cut = False
        self._saying = saying
        self._silent: set[int] = set()
        self._kept: list[ToolCallEnd] = []
        self._searched: Sequence[Any] = ()
        self._ends: dict[int, Any] = {}  # of the blocks in `_searched`, by index

    def feed(self, batch: Sequence[AssistantMessageEvent], known: Known) -> bytes:
        """Encode the events of one network read."""
        out: list[bytes] = []
        batch = as_vendors_end(batch)
        event: Any
        for event in batch:
            if self.ended:
                break
            kind = type(event)
            if not self._begun and kind in self._saying:
                self._begin(known, batch, out)
            if kind is ToolCallStart:
                self._silent.add(event.content_index)
            elif kind is ToolCallDelta:
                self._silent.discard(event.content_index)
            elif kind is ToolCallEnd and event.content_index in self._silent:
                self._kept.append(event)
                continue
            if self._kept:
                self._end_silent(event, batch, out)
            self._write(event, batch, out)
        return b"".join(out)

    def _end_silent(self, follows: Any, batch: Sequence[Any], out: list[bytes]) -> None:
        kept, self._kept = self._kept, []
        self._cut = isinstance(follows, Retry | Error) or (
            isinstance(follows, Done) and follows.stop_reason is StopReason.LENGTH
        )
        for end in kept:
            self._write(end, batch, out)
        self._cut = False

    def _ends_in(self, batch: Sequence[Any]) -> Mapping[int, Any]:
        """Return the ends of blocks in a batch, by index; a batch is searched once."""
        if batch is not self._searched:
            ends = (event for event in batch if isinstance(event, _ENDS))
            self._ends = {end.content_index: end for end in ends}
            self._searched = batch
        return self._ends

    def _begin(
        self, known: Known, batch: Sequence[AssistantMessageEvent], out: list[bytes]
    ) -> None:
        raise NotImplementedError

    def _write(self, event: Any, batch: Sequence[Any], out: list[bytes]) -> None:
        raise NotImplementedError


def cut_short(batch: Sequence[AssistantMessageEvent]) -> list[AssistantMessageEvent]:
    """Remove the end events of blocks that a failure cut off. Vendors do not send such events.

    Clients treat a block with an end as complete: Claude Code would keep the block and not retry.
    """
    *events, error = batch
    while events and type(events[-1]) in _ENDS:
        events.pop()
    return [*events, error]


def as_vendors_end(batch: Sequence[AssistantMessageEvent]) -> Sequence[AssistantMessageEvent]:
    """Return a batch whose end is one that vendors send.

    The ends of blocks that a failure cut off are removed (see `cut_short`). The failure of an empty
    answer, which only swink treats as a failure, is replaced by the normal end.
    """
    error = batch[-1] if batch else None
    if not isinstance(error, Error):
        return batch
    if error.code != EMPTY:
        return cut_short(batch)
    done = Done(
        StopReason.STOP,
        usage=error.usage,
        cost=error.cost,
        response_id=error.response_id,
        model=error.model,
        request_id=error.request_id,
        metadata=error.metadata,
    )
    return [*batch[:-1], done]


def id_of(known: Known, batch: Sequence[AssistantMessageEvent], facts: Facts, prefix: str) -> str:
    """Return the answer's id, as the provider reported it.

    If the provider has not reported an id yet, return `prefix` followed by `facts.id`.
    """
    said = known.response_id or _end(batch, "response_id")
    return said or f"{prefix}{facts.id}"


def model_of(known: Known, batch: Sequence[AssistantMessageEvent]) -> str:
    """Return the name of the answering model.

    It is the name that the provider reported or, before that, the id of the requested model.
    """
    said: str = known.response_model or _end(batch, "model") or known.model.id
    return said


def _end(batch: Sequence[AssistantMessageEvent], name: str) -> Any:
    return getattr(batch[-1], name) if batch and isinstance(batch[-1], Done | Error) else None


def arguments_text(call: ToolCallBlock) -> str:
    """Return a call's arguments as the model wrote them, or as JSON if that text is not known."""
    none = "" if call.state == "truncated" else encode(call.arguments).decode()
    return call.raw_arguments or none


def started_anew(retry: Retry) -> Error:
    """Return the failure that ends an answer if a retry would begin a new answer.

    Most protocols cannot tell the client to discard the output that it has received.
    """
    error = Error.network(why_again(retry), retry.delay or None)
    error.error_kind = retry.error_kind or error.error_kind
    return error
