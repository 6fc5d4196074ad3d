"""Adapt calls to their API and their model, by rules that are data (`Rule`).

An option with an equivalent in the API is sent as this equivalent. A sampling or output option
without an equivalent is omitted with a notice. If the API or model does not support something that
the call needs, such as its tools or images, the call is refused before anything is sent. With the
option `rules=False`, a call is sent unchanged, except for content that the API cannot represent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import date
from functools import lru_cache
from math import inf
from typing import Any, Self

from attrs import define, evolve, field
from msgspec.structs import asdict

from swink_core.failures.failure import Failure
from swink_core.providers.contexts import (
    ASSISTANT,
    FittedContext,
    assistant_media,
    first_of,
    folded_system,
    required_features,
    text_of,
)
from swink_core.providers.conversion import accepted_id
from swink_core.providers.features import API, PER_MODEL, context_notices
from swink_core.providers.media import unsupported
from swink_core.providers.schemas import joined_root, rewritten_schema
from swink_core.providers.shapes import SHAPE_ROWS, calls_apart
from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.messages import (
    AssistantMessage,
    Context,
    DocumentBlock,
    Message,
    SystemMessage,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
)
from swink_core.vocabulary.models import COUNTED, Model, Rule
from swink_core.vocabulary.option_table import TUNING
from swink_core.vocabulary.options import StreamOptions, ThinkingLevel
from swink_core.vocabulary.outcome import StreamErrorKind as Kind
from swink_core.vocabulary.structs import replace

ROOM_TO_ANSWER = 1024
"""The part of `max_tokens` that thinking may not use, in tokens: it is kept for the answer."""

NOTICE_DAYS = 90
"""A call gets a notice if its model will be retired within this many days."""

LIFTED = (
    "Change the call, or use another model. If this rule is out of date, rules=False sends the "
    "call."
)

SENT_ALL_THE_SAME = (
    "Use another model. If the model is still available, retired=True sends the call."
)
"""Advice for a call to a retired model."""

_JOINED = frozenset({"takes", "least", "most", "facts"})
_NONE_REFUSED = re.compile("(?!)")
_ORDER = [*ThinkingLevel]
_NOT_IN_NAMES = re.compile(r"^[^a-zA-Z_]|[^a-zA-Z0-9_-]")


def rule_of(model: Model, api: API | None = None) -> Rule:
    """Merge the rules of a model that apply to every call; later rules override earlier ones.

    A rule that names APIs is used only if it names `api`.
    """
    return _for(model.rules, getattr(api, "api_name", None))[1]


@lru_cache(maxsize=4096)
def _for(rules: tuple[Rule, ...], api: str | None) -> tuple[tuple[Rule, ...], Rule]:
    """Return an API's rules that have a condition, and its other rules merged into one."""
    hold = [rule for rule in rules if not rule.apis or api in rule.apis]
    return tuple(r for r in hold if r.when), _laid_over(r for r in hold if not r.when)


def _laid_over(rules: Iterable[Rule]) -> Rule:
    said: dict[str, Any] = {}
    for rule in rules:
        for name, value in asdict(rule).items():
            if value:
                said[name] = {**said.get(name, {}), **value} if name in _JOINED else value
    return Rule(**said)


@define
class Fitted:
    """A call that is adapted to its API and model, with notices about the changes.

    If the call is refused, `failure` is the reason; otherwise, it is `None`. `names` maps the names
    of the tools in the request to the caller's names.
    """

    model: Model
    context: Context
    options: StreamOptions
    notices: list[Notice] = field(factory=list)
    names: dict[str, str] = field(factory=dict)
    failure: Failure | None = None
    _wanted: set[str] | None = field(default=None, init=False)

    def _features(self) -> set[str]:
        """Return the features that the caller's conversation and options need."""
        if self._wanted is None:
            self._wanted = required_features(self.context, self.options, self.model.provider)
        return self._wanted

    def words(self, name: str) -> set[Any]:
        """Return words for the state of an option, feature or `Shape` in this call, such as `set`.

        A rule's condition (`Rule.when`) is met if it names one of these words.
        """
        if (shape := SHAPE_ROWS.get(name)) is not None:
            return {"set"} if shape.holds(self.context, self.options) else {"unset"}
        value = getattr(self.options, name, None)
        if name == "thinking" and (level := self.options.thinking_level) is not None:
            if level is ThinkingLevel.OFF:
                return {level}
            words = {"set", "on", level}
            return words | {"tokens"} if isinstance(value, int) else words
        if name == "tool_choice" and value not in (None, "auto", "none"):
            return {"set", "forced", value}
        if value not in (None, ()) and not (name == "cache" and value.mode == "none"):
            return {"set", value} if isinstance(value, str | int | float) else {"set"}
        own = name == "tools" and self.options.extra.get(name)
        return {"set"} if own or name in self._features() else {"unset"}

    def meets(self, rule: Rule) -> bool:
        """Return True if the call meets a rule's condition."""
        return not any(self.words(n).isdisjoint(wanted) for n, wanted in rule.when.items())

    @property
    def wanted_api(self) -> str | None:
        """The API that the rules select for this call; `None` if no rule selects one.

        The last rule that selects an API and whose condition is met decides.
        """
        choosing = (r for r in reversed(self.model.rules) if r.api and not r.apis)
        return next((rule.api for rule in choosing if self.meets(rule)), None)

    def tell(self, what: str, code: str = "option_changed", *paths: str) -> None:
        """Add a `Notice` that reports a change of the call; `what` describes the change.

        `paths` names the omitted or changed values, as in `Notice`.
        """
        self.notices.append(Notice(code, f"{self.model}{what}", paths))

    def refuse(self, feature: str, what: str) -> None:
        """Refuse the call: the API or model does not support `feature`. `what` is the reason.

        If a call is refused several times, the first reason is reported.
        """
        self.failure = self.failure or unsupported(feature, f"{self.model} {what}").failure

    def age(self, today: date, at_home: bool) -> None:
        """Add a notice if the model retires soon; refuse the call if the model has retired.

        In the last `NOTICE_DAYS` days before the date of retirement, a notice announces it. From
        that date on, the call is refused if it goes to the provider's own address (`at_home`), if
        the retirement was confirmed on or after the date (`Rule.as_of`), and if the option
        `retired` is not set. Otherwise, a notice is added, and the server decides.
        """
        rules = reversed(self.model.rules) if self.options.rules else ()
        if (rule := next((rule for rule in rules if rule.retires), None)) is None:
            return
        left = (date.fromisoformat(rule.retires) - today).days
        instead = f"; use {rule.successor} instead" if rule.successor else ""
        is_confirmed = rule.as_of >= rule.retires
        if left > NOTICE_DAYS:
            return
        if left > 0:
            self.tell(f" will be retired on {rule.retires}{instead}", "model_retires")
        elif at_home and is_confirmed and not self.options.retired:
            gone = Failure("request", kind=Kind.MODEL_NOT_FOUND, code="retired")
            gone.resolution = SENT_ALL_THE_SAME
            gone.message = f"{self.model} was retired on {rule.retires}{instead}"
            self.failure = gone
        else:
            when = "was retired on" if is_confirmed else "was to be retired on"
            self.tell(f" {when} {rule.retires}{instead}", "model_retired")

    def fit(self, api: API) -> Self:
        """Adapt the call to the features of the API, then to the rules."""
        model = self.model
        known = self.options.rules
        rule = rule_of(model, api) if known else Rule()
        has = {*api.features, *api.knobs}
        if known:
            has -= {name for name in (*PER_MODEL, "thinking") if model.lacks(name)}
            has -= {name for name, taken in rule.takes.items() if taken is False}
            has |= {name for name, taken in rule.takes.items() if taken is True}
        wanted = {*self._features()}
        marks = getattr(api, "system_marks", None)
        if marks is not None:
            has.add("system_extensions")  # system text stays a list of blocks
        transport = self.options.transport
        if not getattr(api, transport, True):  # every API has `auto` and `sse`
            wanted.add(f"{transport}_transport")
        thinks = model.info is not None and "thinking" in (model.info.capabilities or ())
        if "thinking" not in has and not thinks and self.options.thinking_budget == 0:
            self._set("thinking", None)  # thinking stays off
        self._refuse_media(has)
        for feature in sorted(wanted - has):
            self._leave_out(feature)
        for name in TUNING:
            if name not in has and self.words(name) != {"unset"}:
                self._leave_out(name)
        self.notices += context_notices(has, model, self.context, marks)
        messages = self.context.messages
        leads = messages and isinstance(messages[0], SystemMessage)
        if marks is None and isinstance(prompt := self.context.system_prompt, list):
            self.context = replace(self.context, system_prompt=text_of(prompt))
        if leads and "system_messages" not in has and marks is None:
            self.context = folded_system(FittedContext.keep(self.context))
        if known:
            self._apply(rule)
            self._think(rule)
            for rule in _for(model.rules, api.api_name)[0]:
                if self.meets(rule):
                    self._apply(rule)
        if self.failure is not None and self.failure.code in {*api.features, *SHAPE_ROWS}:
            self.failure.resolution = LIFTED
        return self

    def _refuse_media(self, has: set[str]) -> None:
        """Refuse media in assistant messages if the API does not support them."""
        if not any(feature.startswith(ASSISTANT) for feature in self._features()):
            return
        for feature, path in assistant_media(self.context):
            if feature not in has:
                media = feature.removeprefix(ASSISTANT)
                self.refuse(feature, f"does not accept {media} in assistant messages ({path})")

    def _set(self, name: str, value: Any) -> None:
        self.options = evolve(self.options, **{name: value})

    def _leave_out(self, name: str, what: str = "") -> None:
        if name in TUNING:
            self._set(name, None)
            self.tell(
                f" does not support {what}{name}; it was not sent",
                "option_ignored",
                f"options.{name}",
            )
        elif name == "calls_apart":
            self._join_calls()
        elif name == "trailing_space":
            self._strip_end()
        elif name in SHAPE_ROWS:
            self.refuse(name, SHAPE_ROWS[name].refusal)
        else:
            self.refuse(name, f"does not support {name.replace('_', ' ')}")

    def _change(self, name: str, value: Any) -> None:
        if value != (given := getattr(self.options, name)):
            self._set(name, value)
            what = f": {name} was changed from {'unset' if given is None else given} to {value}"
            self.tell(what, "option_changed", f"options.{name}")

    def _think(self, rule: Rule) -> None:
        level = self.options.thinking_level
        tokens = self.options.thinking_budget
        if level is None or tokens is None:
            return
        is_counted = level is not self.options.thinking or not rule.efforts
        if is_counted and rule.budget and tokens:
            least, most = rule.budget
            limit = self.options.max_tokens or most + ROOM_TO_ANSWER
            fit = min(max(tokens, least), most, max(limit - ROOM_TO_ANSWER, least))
            if limit <= least:
                self._leave_out("thinking")
            elif fit != tokens:
                self._change("thinking", fit)
        elif rule.efforts:
            known = [each for each in _ORDER if each in rule.efforts]
            word = next((w for w in known if _ORDER.index(w) >= _ORDER.index(level)), known[-1])
            if word is not level or (tokens and level is not self.options.thinking):
                self._change("thinking", word)

    def _apply(self, rule: Rule) -> None:
        for name, value in rule.change.items():
            self._change(name, value)
        for name, taken in rule.takes.items():
            words = self.words(name) - {"unset"}
            if words and taken is not True and not (taken and words & set(taken)):
                self._leave_out(name, "this value of " if taken else "")
        for name in {**rule.least, **rule.most}:
            self._bound(name, rule.least.get(name, -inf), rule.most.get(name, inf))
        if rule.schema:
            self.context = replace(
                self.context,
                tools=[self._plain(n, t, rule.schema) for n, t in enumerate(self.context.tools)],
            )
        if rule.tool_name:
            self._rename(re.compile(rule.tool_name))

    def _bound(self, name: str, least: float, most: float) -> None:
        if name in COUNTED:
            if (count := self._count(name)) > most:
                self.refuse(name, f"accepts at most {most} {name}, not {count}")
            return
        value = getattr(self.options, name)
        if isinstance(value, str) and len(value) > most:
            self._set(name, accepted_id(value, _NONE_REFUSED, int(most)))
        elif isinstance(value, tuple) and len(value) > most:
            self.refuse(name, f"accepts at most {most} values of {name}, not {len(value)}")
        elif isinstance(value, int | float):
            self._change(name, min(max(value, least), most))

    def _count(self, name: str) -> int:
        """Return the number of tools, or of documents; videos do not count as documents."""
        if name == "tools":
            return len(self.context.tools)
        contents = (message.content for message in self.context.messages)
        blocks = (
            block for content in contents if not isinstance(content, str) for block in content
        )
        sources = (block.source for block in blocks if isinstance(block, DocumentBlock))
        return sum(
            not (getattr(source, "media_type", None) or "").startswith("video/")
            for source in sources
        )

    def _strip_end(self) -> None:
        """If the last message is an assistant message, remove white space at its end."""
        *earlier, last = self.context.messages
        if not isinstance(last, AssistantMessage):
            return
        *before, end = last.content
        if isinstance(end, TextBlock):
            at = len(earlier) + first_of(self.context)
            path = f"messages[{at}].content[{len(before)}].text"
            kept = replace(last, content=[*before, replace(end, text=end.text.rstrip())])
            self.context = replace(self.context, messages=[*earlier, kept])
            what = f": {path}: trailing white space was not sent"
            self.tell(what, "content_changed", path)

    def _join_calls(self) -> None:
        """If a message has text between its tool calls, move the text before the first call."""
        messages = [*self.context.messages]
        first = first_of(self.context)
        for at, message in enumerate(messages):
            if isinstance(message, AssistantMessage) and calls_apart(message):
                content = sorted(
                    message.content, key=lambda block: isinstance(block, ToolCallBlock)
                )
                messages[at] = replace(message, content=content)
                path = f"messages[{at + first}]"
                what = f": {path}: text between tool calls was moved before them"
                self.tell(what, "content_moved", path)
        self.context = replace(self.context, messages=messages)

    def _plain(self, number: int, tool: Tool, refused: tuple[str, ...]) -> Tool:
        if tool.parameters.get("type", "object") != "object":
            self.refuse(
                "tools", f"does not accept tools whose parameters are not an object: {tool.name}"
            )
        if gone := sorted(tool.parameters.keys() & set(refused)):
            what = (
                f": {', '.join(gone)} at the root of the schema of {tool.name} merged into one "
                "object"
            )
            paths = [f"tools[{number}].parameters.{name}" for name in gone]
            self.tell(what, "option_changed", *paths)
        return replace(tool, parameters=rewritten_schema(joined_root, tool.parameters, refused))

    def _rename(self, accepted: re.Pattern[str]) -> None:
        """Replace tool names that the API does not accept, in tools, messages and options.

        `accepted` matches the names that the API accepts.
        """
        given = {tool.name for tool in self.context.tools}
        for message in self.context.messages:
            if isinstance(message, AssistantMessage):
                for block in message.content:
                    if isinstance(block, ToolCallBlock):
                        given.add(block.name)
            elif isinstance(message, ToolResultMessage):
                given.add(message.tool_name)
        given.discard("")  # the result of an unknown tool has no name
        refused = [name for name in given if not accepted.fullmatch(name)]
        new = {name: _tool_name(name, accepted) for name in refused}
        if new:
            self.names = {sent: name for name, sent in new.items()}
            self.context = replace(
                self.context,
                tools=[_under(new, tool) for tool in self.context.tools],
                messages=[_renamed(message, new) for message in self.context.messages],
            )
            if (choice := self.options.tool_choice) is not None:
                self._set("tool_choice", new.get(choice, choice))


def _renamed(message: Message, new: Mapping[str, str]) -> Message:
    if isinstance(message, ToolResultMessage):
        return replace(message, tool_name=new.get(message.tool_name, message.tool_name))
    if not isinstance(message, AssistantMessage):
        return message
    content = [_under(new, b) if isinstance(b, ToolCallBlock) else b for b in message.content]
    return replace(message, content=content)


def _under(new: Mapping[str, str], named: Any) -> Any:
    """Return a tool or a tool call with the new name from `new`, if there is one."""
    return replace(named, name=new.get(named.name, named.name))


def _tool_name(name: str, accepted: re.Pattern[str]) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    sent = f"{_NOT_IN_NAMES.sub('_', name)[:48]}_{digest}"
    return sent if accepted.fullmatch(sent) else f"tool{sent}"  # must begin with a letter
