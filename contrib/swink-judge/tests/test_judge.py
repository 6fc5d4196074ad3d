"""The judge refuses what the real APIs refuse, and says by which source it knows."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swink_judge import Asked, Judge, Rule, asked_of
from swink_judge.paths import OPERATORS, condition
from swink_judge.rules import Family, all_families
from swink_test_helpers.corpus import corpus_folder

JUDGE = Judge()
REFERENCE = corpus_folder().parent / "judge"


class Example(msgspec.Struct, forbid_unknown_fields=True):
    """A request that a rule refuses, and the like of it that is accepted."""

    rule: str
    provider: str
    api: str
    model: str
    refused: dict[str, Any]
    accepted: dict[str, Any]
    accepted_model: str | None = None
    accepted_api: str | None = None

    def asks(self, accepted: bool) -> tuple[str, str, str, dict[str, Any]]:
        """Return the requests that the judge receives."""
        if not accepted:
            return self.provider, self.api, self.model, self.refused
        api, model = self.accepted_api or self.api, self.accepted_model or self.model
        return self.provider, api, model, self.accepted


EXAMPLES = msgspec.json.Decoder(Example).decode_lines(
    Path(__file__).with_name("judge_examples.jsonl").read_bytes()
)


def _ids(rules: list[Rule]) -> list[str]:
    return [rule.id for rule in rules]


def test_every_rule_has_a_name_of_its_own_a_source_and_a_status() -> None:
    assert len({rule.id for rule in JUDGE.rules}) == len(JUDGE.rules)
    for rule in JUDGE.rules:
        assert rule.source.startswith("https://"), rule.id
        assert rule.status == 200 or 400 <= rule.status < 500, rule.id
        assert rule.message, rule.id
        assert "2026-11-21" <= rule.checked <= date.today().isoformat(), rule.id
        assert rule.confidence in ("measured", "documented", "reported"), rule.id


def test_every_rule_has_an_example_of_what_it_refuses_and_what_it_lets_through() -> None:
    assert sorted(example.rule for example in EXAMPLES) == sorted(rule.id for rule in JUDGE.rules)


def test_a_rule_refuses_its_refused_example_and_not_the_other() -> None:
    def refuses(example: Example, accepted: bool) -> bool:
        return example.rule in _ids(JUDGE.refusals(*example.asks(accepted)))

    assert [one.rule for one in EXAMPLES if not refuses(one, accepted=False)] == []
    assert [one.rule for one in EXAMPLES if refuses(one, accepted=True)] == []


@pytest.mark.parametrize(
    ("path", "op", "more", "body", "holds"),
    [
        ("a", "present", [], {"a": 0}, True),
        ("a", "present", [], {"a": None}, False),
        ("a", "absent", [], {}, True),
        ("a", "absent", [], {"a": None}, True),
        ("a", "absent", [], {"a": False}, False),
        ("a", "ne", [1], {}, False),
        ("a", "ne", [1, True], {}, True),
        ("a", "ne", [1], {"a": 1}, False),
        ("a.b", "eq", [1], {"a": {"b": 1}}, True),
        ("a.b", "eq", [1], {"a": [1]}, False),
        ("a[*].b", "gt", [3], {"a": [{"b": 1}, {"b": 4}]}, True),
        ("a[*].b", "gt", [3], {"a": [{"b": True}, {"b": "4"}]}, False),
        ("a[-1]", "lt", [3], {"a": [9, 2]}, True),
        ("a[1]", "eq", [2], {"a": [9]}, False),
        ("a", "len_gt", [2], {"a": "abc"}, True),
        ("a", "len_gt", [2], {"a": 99}, False),
        ("a", "type_in", [["number"]], {"a": True}, False),
        ("a", "type_in", [["string", "number"]], {"a": 0.5}, True),
        ("a", "matches", ["^x"], {"a": "xy"}, True),
        ("a", "not_matches", ["^x"], {"a": 7}, False),
        ("a", "in", [["x", "y"]], {"a": "y"}, True),
        ("a", "not_in", [["x"]], {"a": None}, True),
        ("a[*]", "holds", [[["b", "eq", 1], ["c", "eq", 2]]], {"a": [{"b": 1, "c": 2}]}, True),
        ("a[*]", "holds", [[["b", "eq", 1], ["c", "eq", 2]]], {"a": [{"b": 1}, {"c": 2}]}, False),
        ("a", "more_than", [[1, [["b", "eq", 1]]]], {"a": [{"b": 1}, {"b": 1}, {}]}, True),
        ("a", "more_than", [[1, [["b", "eq", 1]]]], {"a": [{"b": 1}, {"b": 2}, {}]}, False),
        ("a", "says", [["minimum"]], {"a": {"items": {"minimum": 1}}}, True),
        ("a", "says", [["minimum"]], {"a": {"properties": {"minimum": {}}}}, False),
        ("a", "says", [["minimum"]], {"a": {"properties": {"b": {"minimum": 1}}}}, True),
        ("a", "lacks", [["type", "anyOf"]], {"a": {"properties": {"b": {"title": "B"}}}}, True),
        ("a", "lacks", [["type", "anyOf"]], {"a": {"properties": {"type": {}}}}, True),
        ("a", "lacks", [["type", "anyOf"]], {"a": {"anyOf": [{"type": "null"}, {}]}}, True),
        ("a", "lacks", [["type"]], {"a": {"items": {"type": "string"}, "default": {}}}, False),
        ("a", "itemless", [True], {"a": {"properties": {"b": {"type": "array"}}}}, True),
        ("a", "itemless", [True], {"a": {"type": "array", "items": {}}}, False),
        ("a", "json", [[["b", "eq", 1]]], {"a": '{"b": 1}'}, True),
        ("a", "json", [[["b", "eq", 1]]], {"a": '{"b": 2}'}, False),
        ("a", "json", [[["b", "eq", 1]]], {"a": "{"}, False),
        ("a", "json", [[["", "open", True]]], {"a": '{"type": "object"}'}, True),
        ("a", "open", [True], {"a": {"type": "object"}}, True),
        ("a", "unrequired", [True], {"a": {"properties": {"b": {}}}}, True),
        ("a", "unrequired", [True], {"a": {"properties": {"b": {}}, "required": ["b"]}}, False),
        ("a", "unrequired", [True], {"a": {"items": {"properties": {"b": {}}}}}, True),
        ("a", "unrequired", [True], {"a": {"type": "object"}}, False),
        ("a", "open", [True], {"a": {"type": "object", "additionalProperties": False}}, False),
        ("a", "open", [True], {"a": {"items": {"type": ["object", "null"]}}}, True),
        ("a", "open", [True], {"a": {"type": "string"}}, False),
        ("a", "recursive", [True], {"a": {"items": {"$ref": "#"}}}, True),
        (
            "a",
            "recursive",
            [True],
            {"a": {"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}},
            False,
        ),
        (
            "a",
            "recursive",
            [True],
            {"a": {"$defs": {"x": {"items": {"$ref": "#/$defs/y"}}, "y": {"$ref": "#/$defs/x"}}}},
            True,
        ),
        ("a", "recursive", [True], {"a": {"$ref": "#/$defs/none"}}, False),
        (
            "a",
            "recursive",
            [True],
            {"a": {"items": [{"$ref": "#/x"}, {"$ref": "#/x"}], "x": {}}},
            False,
        ),
        (
            "a",
            "in_a_row",
            [[[["b", "eq", 1]], [["b", "eq", 2]]]],
            {"a": [{"b": 1}, {"b": 2}]},
            True,
        ),
        (
            "a",
            "in_a_row",
            [[[["b", "eq", 1]], [["b", "eq", 2]]]],
            {"a": [{"b": 1}, {"b": 3}, {"b": 2}]},
            False,
        ),
        ("a", "in_a_row", [[[["b", "eq", 1]]]], {"a": "b"}, False),
        ("a[*].b[*]", "count_gt", [2], {"a": [{"b": [1]}, {"b": [1, 1]}]}, True),
        ("a[*].b[*]", "count_gt", [2], {"a": [{"b": [1, 1]}, {}]}, False),
        ("a", "unlisted", [["b[*].c"]], {"a": "x", "b": [{"c": "y"}]}, True),
        ("a", "unlisted", [["b[*].c"]], {"a": "x", "b": [{"c": "y"}, {"c": "x"}]}, False),
        ("a", "unlisted", [["b", "d"]], {"a": "x", "d": "x"}, False),
        ("a", "unlisted", [["b"]], {"a": "x"}, True),
        ("a", "unlisted", [["b"]], {"a": None}, False),
        ("a[*]", "unlisted", [["b[*]"]], {"a": ["x", "y"], "b": ["x"]}, True),
    ],
)
def test_a_condition_holds(path: str, op: str, more: list[Any], body: Any, holds: bool) -> None:
    assert condition(path, op, *more)(body) is holds


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(KeyError):
        condition("a", "resembles", "x")


@pytest.mark.parametrize(
    ("url", "body", "asked"),
    [
        (
            "https://api.openai.com/v1/chat/completions",
            {"model": "m", "stream": True},
            ("chat", "m", "openai-chat", True),
        ),
        (
            "https://a.com/openai/v1/responses?v=1",
            {"model": "m"},
            ("responses", "m", "openai-responses", False),
        ),
        (
            "https://api.anthropic.com/v1/messages",
            {"model": "m", "stream": False},
            ("messages", "m", "anthropic-messages", False),
        ),
        ("http://a:11434/api/chat", {"model": "q:4b"}, ("chat", "q:4b", "ollama-chat", True)),
        (
            "https://b.com/model/us.a%3A0/converse-stream",
            {},
            ("converse", "us.a:0", "bedrock-converse", True),
        ),
        ("https://b.com/model/us.a/converse", {}, ("converse", "us.a", "bedrock-converse", False)),
        (
            "https://g.com/v1/models/g-3:streamGenerateContent",
            {},
            ("generateContent", "g-3", "gemini-generate-content", True),
        ),
        (
            "https://v.com/p/anthropic/models/c@1:streamRawPredict",
            {"stream": True},
            ("messages", "c@1", "anthropic-messages", True),
        ),
        (
            "https://v.com/v1/publishers/mistralai/models/m-1:rawPredict",
            {"model": "m-1"},
            ("chat", "m-1", "openai-chat", False),
        ),
        ("https://api.openai.com/v1/embeddings", {}, None),
        ("https://api.openai.com/v1/chat/completions", [], None),
    ],
)  # fmt: skip
def test_a_request_tells_whom_it_asks(
    url: str, body: Any, asked: tuple[str, str, str, bool] | None
) -> None:
    found = asked_of("acme", url, msgspec.json.encode(body))
    if asked is None:
        assert found is None
    else:
        api, model, wire_format, streamed = asked
        assert found == Asked("acme", api, model, body, wire_format, streamed)


def test_a_body_that_is_no_json_asks_nobody() -> None:
    assert asked_of("acme", "https://api.openai.com/v1/chat/completions", b"{") is None


def test_rules_of_ones_own_take_the_place_of_those_that_come_along() -> None:
    rule = Rule(
        "acme", "acme", "chat", ".", [["tools", "present"]], 422, "no", "https://a", "measured",
        "2026-11-25",
    )  # fmt: skip
    judge = Judge([rule])
    assert judge.providers == {"acme"}
    assert judge.refusals("acme", "chat", "large", {"tools": []}) == [rule]
    assert judge.refusals("acme", "messages", "large", {"tools": []}) == []
    assert judge.has_rules("acme", "chat")
    assert not judge.has_rules("acme", "messages")
    assert not judge.has_rules("other", "chat")


# -- models to come -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", all_families(), ids=lambda family: str(family.id))
def test_a_familys_newest_is_a_model_that_there_is_and_has_a_source(family: Family) -> None:
    for provider in family.provider.split("|"):
        assert JUDGE.judged_as(provider, family.newest) == family.newest
    assert family.source.startswith("https://")


@pytest.mark.parametrize(
    ("provider", "model", "known"),
    [
        ("openai", "gpt-7", "gpt-6.2-sol"),
        ("openai", "gpt-7-sol", "gpt-6.2-sol"),
        ("openai", "ft:gpt-7-mini:acme::b7x9", "gpt-5.4-mini"),
        ("openai", "ft:gpt-4.1:acme::b7x9", "ft:gpt-4.1:acme::b7x9"),
        ("openai", "gpt-5.6-luna-2026-10-15", "gpt-5.6-luna-2026-10-15"),
        ("anthropic", "claude-opus-latest", "claude-opus-5-5"),
        ("anthropic", "claude-opus-5-6", "claude-opus-5-5"),
        ("anthropic", "claude-opus-4-20250514", "claude-opus-4-20250514"),
        ("bedrock", "eu.anthropic.claude-haiku-6", "global.anthropic.claude-haiku-5-5"),
        ("gemini", "gemini-flash-latest", "gemini-3.8-flash"),
        ("gemini", "gemini-5-argon", "gemini-4-argon"),
        ("xai", "grok-5", "grok-4.7"),
        ("xai", "claude-opus-6", "claude-opus-6"),
    ],
)
def test_what_nobody_has_announced_is_judged_as_the_newest_of_its_family(
    provider: str, model: str, known: str
) -> None:
    assert JUDGE.judged_as(provider, model) == known


def test_rules_hold_for_the_successors_of_whom_they_name() -> None:
    body = {"reasoning": {"effort": "none"}}
    assert _ids(JUDGE.refusals("openai", "responses", "gpt-7-astra", body)) == [
        "openai-responses-effort-gpt62"
    ]
    assert JUDGE.refusals("openai", "responses", "gpt-7-luna", body) == []


# -- beside the reference ------------------------------------------------------------------------

needs_reference = pytest.mark.skipif(
    not (REFERENCE / "judge.py").is_file(), reason="the reference judge is not beside the corpus"
)


@pytest.fixture(scope="module")
def reference() -> Any:
    """Return the reference judge."""
    spec = importlib.util.spec_from_file_location("reference_judge", REFERENCE / "judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Judge(REFERENCE / "rules")


def _mixed(chance: random.Random, example: Example) -> dict[str, Any]:
    """Make a body of parts of others: rules that never met may meet."""
    body = dict(example.refused)
    for other in chance.sample(EXAMPLES, 3):
        fields = other.refused if chance.random() < 0.7 else other.accepted
        for name in chance.sample(sorted(fields), min(2, len(fields))):
            body[name] = fields[name]
    if body and chance.random() < 0.3:
        body[chance.choice(sorted(body))] = chance.choice([None, 0, "", [], {}, True, [None], "x"])
    return body


CORRECTED = {
    "gemini-level-value": "hydrogen",
    "gemini-level-minimal": "carbon",
    "gemini-inline-mime-docx": "carbon|hydrogen",
    "bedrock-claude-format-limits": "claude",
}
"""Rules of the reference, and the models of which they are wrong.

Newer models: the guides gemini-4-hydrogen and gemini-4-carbon on docs.cloud.google.com. Bedrock
accepts `minLength` in the response format of a Claude model, as a recorded request shows.
"""


def _since(ids: list[str], model: str) -> list[str]:
    return [id for id in ids if id not in CORRECTED or not re.search(CORRECTED[id], model)]


@needs_reference
def test_both_judges_agree_on_every_example_and_on_mixtures_of_them(reference: Any) -> None:
    chance = random.Random(20261121)
    asked = [example.asks(accepted) for example in EXAMPLES for accepted in (False, True)]
    for _ in range(1500):
        example, other = chance.choice(EXAMPLES), chance.choice(EXAMPLES)
        model = example.model if chance.random() < 0.7 else other.model
        asked.append((example.provider, example.api, model, _mixed(chance, example)))
    known = {row["id"] for row in reference.rows}  # rules were added here since
    for question in asked:
        found = [id for id in _ids(JUDGE.refusals(*question)) if id in known]
        theirs, model = _ids(reference.violations(*question)), question[2]
        assert _since(found, model) == _since(theirs, model), question


def test_the_operators_are_those_that_the_rules_use() -> None:
    used = {op for rule in JUDGE.rules for op in _operators(rule.when)}
    assert used == {*OPERATORS, "absent", "count_gt", "unlisted"}


def _operators(conditions: list[list[Any]]) -> Iterator[str]:
    """Yield the operators of conditions, and of those within them."""
    for _, operator, *more in conditions:
        yield operator
        if operator in ("holds", "json"):
            yield from _operators(more[0])
        elif operator == "more_than":
            yield from _operators(more[0][1])
        elif operator == "in_a_row":
            for item in more[0]:
                yield from _operators(item)
