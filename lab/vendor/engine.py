"""From a request to its answer: judged, read, written and billed, without a socket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from lab.vendor import jsons, judging, writer
from lab.vendor.answers import Answer, Call, Refusal, Step, Text, Thought
from lab.vendor.ask import Ask
from lab.vendor.bill import Usage, charge
from lab.vendor.failures import Failure, FailureKind, Refused
from lab.vendor.faults import Fault
from lab.vendor.protocols.base import API, Encoder, Request, as_body
from lab.vendor.record import Exchange
from lab.vendor.state import State

__all__ = ["Job", "fill", "prepare", "run"]

MISSING = "missing-"
"""How the ids of models begin that the vendor does not have; it serves any other."""

_TYPES = {Thought: "thought", Text: "text", Refusal: "refusal", Call: "call"}


@dataclass(slots=True)
class Job:
    """An answer that is ready to be produced."""

    state: State
    exchange: Exchange
    ask: Ask
    answer: Answer
    usage: Usage
    encoder: Encoder
    fault: Fault | None = None

    def begin(self) -> bytes:
        """Read the prompt, from which on it is billed; return what opens the stream."""
        self.usage = self.state.cache.look_up(self.ask)
        self.bill()
        return self.encoder.begin(self.usage)

    def steps(self) -> Iterator[Step]:
        """Yield the steps of production."""
        return self.answer.steps()

    def produce(self, step: Step) -> None:
        """Count a step as produced, on the bill and in the record."""
        self.encoder.take(step)
        produced = self.exchange.produced
        if step.kind == "open":
            part = step.part
            assert part is not None
            data: dict[str, Any] = {"type": _TYPES[type(part)], "text": ""}
            if isinstance(part, Call):
                data["name"] = part.name
                data["id"] = self.encoder.open_part(step).id
            produced[step.choice].append(data)
        elif step.kind == "delta":
            reasoning = step.tokens if isinstance(step.part, Thought) else 0
            self.usage = replace(
                self.usage,
                output=self.usage.output + step.tokens,
                reasoning=self.usage.reasoning + reasoning,
            )
            produced[step.choice][step.index]["text"] += step.text
            self.bill()
        elif step.kind == "end":
            self.exchange.stops[step.choice] = step.stop

    def bill(self) -> None:
        """Charge the attempt for what was produced so far."""
        ask = self.ask
        self.exchange.charge = charge(ask.account, ask.provider, ask.model, self.usage, ask.tier)


def prepare(state: State, exchange: Exchange, request: Request, api: API) -> Job:
    """Read and judge a request, and write its answer. Raises Refused.

    Nothing is billed, and the prompt cache is not touched, before `Job.begin`.
    """
    fill(exchange, request, api)
    body = api.normal(as_body(request))
    exchange.model = api.model(request, body)
    exchange.streamed = api.is_streamed(request, body)
    if exchange.model.startswith(MISSING):
        code = "model_not_found"
        raise Refused(Failure("not_found", api.no_model(exchange.model), code=code))
    judgement = judging.refusal(request.provider, api.judged_as, exchange.model, body)
    if judgement is not None:
        exchange.rule = judgement.rule
        kind: FailureKind = "not_found" if judgement.status == 404 else "invalid"
        raise Refused(Failure(kind, judgement.message, judgement.status))
    ask = api.read(state, request, body)
    ask.streamed = exchange.streamed
    size = ask.prompt_tokens
    if size > ask.model.window:
        message = f"prompt is too long: {size} tokens > {ask.model.window} maximum"
        raise Refused(Failure("overflow", message))
    answer = writer.write(ask, _script(state, request, ask))
    exchange.produced = [[] for _ in answer.choices]
    exchange.stops = ["" for _ in answer.choices]
    encoder = api.encoder(state, ask)
    encoder.answer = answer
    return Job(state, exchange, ask, answer, Usage(prompt=size), encoder)


def fill(exchange: Exchange, request: Request, api: API) -> None:
    """Write into the record who asks for what."""
    exchange.provider = request.provider
    exchange.api = api.name
    exchange.account = request.account
    exchange.body = request.body
    exchange.request_id = request.request_id


def run(job: Job) -> bytes:
    """Produce an answer at once; return the body of one that is not streamed."""
    job.begin()
    for step in job.steps():
        job.produce(step)
    job.exchange.ended = "complete"
    job.exchange.status = 200
    job.exchange.until = job.state.clock.now()
    return job.encoder.whole(job.usage)


def _script(state: State, request: Request, ask: Ask) -> writer.Script | None:
    """Return the script from the header or the prompt, else the next one in the queue, else the
    one that `state.play` writes."""
    header = request.headers.get("x-vendor-script")
    try:
        if header is not None:
            return writer.Script.of(jsons.load(header))
        data = writer.marked(ask.user_text)
        if {"turns", "parts"} & data.keys():
            return writer.Script.of(data)
    except ValueError as error:
        raise Refused(Failure("invalid", f"invalid script: {error}")) from None
    if state.scripts:
        return replace(state.scripts.pop(0), begins_at=ask.steps)
    if state.play is not None:
        return replace(state.play(ask), begins_at=ask.steps)
    return None
