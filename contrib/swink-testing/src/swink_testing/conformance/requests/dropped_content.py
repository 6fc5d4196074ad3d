"""Checks that requests contain the whole conversation and all options, for every kind of model.

Every name, description, schema, argument, result, text and medium is unique, so that it
can be found in the request; see `swink_judge.matrix`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from attrs import define, field

from swink_core import Model, ModelInfo, ThinkingLevel, UnknownProvider
from swink_core.providers import rule_of
from swink_judge import Asked, Judge
from swink_judge.matrix.asker import Outcome
from swink_judge.matrix.cases import Case, cases_of
from swink_judge.matrix.conversations import LOOK_UP
from swink_judge.matrix.exceptions import excuses
from swink_judge.matrix.lost_values import invented_values, is_told, lost_values
from swink_judge.matrix.models import AskedModel
from swink_testing.conformance.check import fail, require
from swink_testing.conformance.requests.api_rules import judge_of, require_accepted
from swink_testing.conformance.requests.option_effects import further_conversations
from swink_testing.conformance.requests.schema_keywords import require_names
from swink_testing.conformance.subject import Subject

__all__ = ["check_nothing_dropped"]

_REMOVED = {"nonce_removed": None}

_MORE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("plain", {"temperature": 0.25, "extra": {"temperature": 0.75}}),
    ("plain", {"extra": {"nonce_extra": {"nonce_name": ["nonce_value", False, 0]}, **_REMOVED}}),
    ("tools", {"extra": {"tools": [{"type": "nonce_of_the_caller"}]}}),
)
"""Further calls: one sets a field twice, one has an unknown and a removed field, and one has a tool
in addition to those of the conversation.
"""

_OF_A_MODEL = ("thinking", "tool_choice", "response_format")
"""Options whose accepted values depend on the model."""


def check_nothing_dropped(subject: Subject) -> None:
    """Every part of a conversation and every option is sent, refused, or reported by a Notice.

    The check uses one model for each combination of capabilities. Calls that a model can answer are
    not refused. If a tool's schema describes a field with the name of a schema keyword, such as
    `title`, the field is kept. If a sent schema lists a field in `required`, it also describes the
    field in `properties`.
    """
    subject.require_http()
    able, thinking = _others(subject)
    judge = judge_of(subject)
    first = subject.model.id

    async def ask() -> None:
        await _ask(subject, first, _cases(subject.name, first))
        for id in able:
            few = (c for c in _cases(subject.name, id) if set(c.options) <= {*_OF_A_MODEL})
            await _ask(subject, id, few, judge)
        for id in thinking:
            model = AskedModel(id, "listed", id)
            few = (
                Case(subject.name, model, "plain", {"thinking": level}) for level in ThinkingLevel
            )
            await _ask(subject, id, few, judge)
        await require_names(subject)

    asyncio.run(ask())


def _others(subject: Subject) -> tuple[list[str], list[str]]:
    """Return ids of models whose capabilities or reasoning efforts differ from the first model's.

    The first list has at least one model, if the catalogue has more than one. The models in the
    second list have other reasoning efforts than the first model and the models in the first list.
    """
    try:
        infos = subject.catalog.models(subject.name)
    except UnknownProvider:
        return [], []
    first = subject.model.id
    rest = [info for info in infos if info.id != first]
    seen = {info.capabilities for info in infos if info.id == first}
    able = [info.id for info in rest if _is_new(info.capabilities, seen)]
    able = able or [info.id for info in rest][-1:]

    def words(info: ModelInfo) -> tuple[Any, ...]:
        return tuple(rule_of(subject.catalog.resolve(Model(subject.name, info.id))).efforts.items())

    thinkers = [info for info in infos if "thinking" in (info.capabilities or ())]
    heard = {words(info) for info in thinkers if info.id in (first, *able)}
    return able, [info.id for info in thinkers if _is_new(words(info), heard)]


def _is_new(thing: Any, seen: set[Any]) -> bool:
    before = len(seen)
    seen.add(thing)
    return len(seen) > before


def _cases(provider: str, id: str) -> Iterator[Case]:
    model = AskedModel(id, "listed", id)
    for case in cases_of(provider, [model]):
        if len(case.options) < 2:
            yield case
    for conversation, options in _MORE:
        yield Case(provider, model, conversation, options)
    for said in further_conversations():
        yield Case(provider, model, said.name, {})


@define
class _Session:
    """The outcomes of calls to one model; `plain` contains those of calls without options."""

    thinks: bool
    most: int | None
    plain: dict[str, Outcome] = field(factory=dict)
    required: Asked | None = None

    def missing(self, outcome: Outcome) -> Iterator[str]:
        """Yield the parts of a call that its request does not contain and no Notice reports."""
        assert outcome.asked is not None
        assert outcome.request is not None
        case, body = outcome.case, outcome.asked.body
        named = rf"(?<![\w.-]){re.escape(case.model.id)}(?![\w.-])"
        if case.model.id not in outcome.strings and not re.search(
            named, "\n".join((unquote(outcome.request.url), *outcome.strings))
        ):
            yield f"the model's name: {case.model.id} is nowhere in the request"
        plain = self.plain.get(case.conversation, outcome)
        yield from (str(value) for value in lost_values(outcome, plain))
        same = plain.asked is not None and body == plain.asked.body
        texts = "\n".join(outcome.strings)
        if not is_told(outcome, "options.extra"):
            if "nonce_extra" in case.options.get("extra", ()):
                kept = body.get("nonce_extra", _found(body, "nonce_extra"))
                if kept != case.options["extra"]["nonce_extra"]:
                    yield "extra"
            own_tools = "tools" in case.options.get("extra", ())
            own_tools = own_tools and isinstance(body.get("tools"), list)
            if own_tools and "nonce_of_the_caller" not in texts:
                yield "the tool in extra"
            if "nonce_removed" in body:
                yield "the removal of a field, which is what None in extra means,"
        asked_for = case.options.get("response_format")
        if not is_told(outcome, "options.response_format"):
            yield from (f"{v} of the schema" for v in _properties(asked_for) if v not in texts)
        is_off = case.options.get("thinking") == "off" and self.thinks and same
        if is_off and not is_told(outcome, "options.thinking"):
            yield "thinking=off, on a model that thinks,"
        names_one = case.options.get("tool_choice") == LOOK_UP.name
        as_required = self.required is not None and body == self.required.body
        if names_one and as_required and not is_told(outcome, "options.tool_choice"):
            yield "the tool that tool_choice names"


def _properties(schema: Any) -> Iterable[str]:
    """Return the names of the properties of a schema."""
    return schema.get("properties", ()) if isinstance(schema, dict) else ()


def _ids_told_twice(data: Any) -> Iterator[str]:
    """Yield each id that occurs in several objects of one list."""
    if isinstance(data, list):
        ids = [each["id"] for each in data if isinstance(each, dict) and "id" in each]
        if ids:
            yield from (id for id, count in Counter(ids).items() if count > 1)
    for each in data.values() if isinstance(data, dict) else data:
        if isinstance(each, dict | list):
            yield from _ids_told_twice(each)


def _found(data: Any, name: str) -> Any:
    """Return the value of a field with this name, at any depth of JSON data, or `None`."""
    if isinstance(data, dict):
        inner: Iterable[Any] = data.values()
        if name in data:
            return data[name]
    else:
        inner = data if isinstance(data, list) else ()
    return next((found for each in inner if (found := _found(each, name)) is not None), None)


async def _ask(
    subject: Subject, id: str, cases: Iterable[Case], judge: Judge | None = None
) -> None:
    infos = {info.id: info for info in subject.catalog.models(subject.name)}
    thinks = id in infos and "thinking" in (infos[id].capabilities or ())
    asked = _Session(thinks, infos[id].max_output if id in infos else None)
    async with subject.asker(subject.outcomes) as asker:
        for said in further_conversations():
            asker.hold(subject.name, said)
        for case in cases:
            outcome = await asker.outcome(case)
            if outcome.fault is not None:
                fail(f"{case} fails: {outcome.fault}", outcome.request and outcome.request.body)
            if outcome.asked is None:
                continue
            if judge is not None:
                require_accepted(judge, case, outcome.asked)
            if case.conversation != "same id twice":
                for id in _ids_told_twice(outcome.asked.body):
                    fail(
                        f"the id {id!r} stands for two things of one list: {case}",
                        outcome.asked.body,
                    )
            if case.conversation not in asked.plain:
                without = Case(case.provider, case.model, case.conversation, {})
                held = await asker.outcome(without) if case.options else outcome
                asked.plain[case.conversation] = held
            if case.options.get("tool_choice") == "required" and not outcome.notices:
                asked.required = asked.required or outcome.asked
            plain = asked.plain[case.conversation]
            for what in invented_values(outcome, plain, asked.most):
                body = plain.asked and plain.asked.body
                fail(f"{what} is sent where nobody set it, unlike by {case}", body)
            for what in asked.missing(outcome):
                require(
                    _is_excused(case, what),
                    f"{what} is neither sent nor refused, and no Notice says so: {case}",
                    outcome.asked.body,
                    what,
                )


def _is_excused(case: Case, what: str) -> bool:
    return any(each.covers("lost", case.provider, what, case.model.id) for each in excuses())
