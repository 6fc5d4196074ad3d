"""Every kind of call to every kind of model: nothing is refused, nothing is lost in silence."""

from __future__ import annotations

import asyncio
import zlib
from copy import deepcopy
from importlib.metadata import entry_points
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict

from swink_core import (
    Context,
    Host,
    Model,
    Notice,
    StreamOptions,
    dump,
)
from swink_core.providers import TUNING, Catalog, HTTPProvider, HTTPRequest
from swink_judge import Judge, Rule
from swink_judge.matrix.asker import Asker
from swink_judge.matrix.cases import Case, cases_of
from swink_judge.matrix.exceptions import excuses
from swink_judge.matrix.findings import FAULTS, Kind, Run, RunOptions, examined
from swink_judge.matrix.lost_values import lost_values
from swink_judge.matrix.models import AskedModel, models_of
from swink_testing.acme import AcmeProvider

JUDGE = Judge()
CATALOG = Catalog(Host(environ={}), environ={})
INSTALLED = Host(environ={}).provider_names()


OF_ONE_DIALECT = {
    entry.name
    for entry in entry_points(group="swink.providers")
    if entry.value == "swink_provider_openai:OpenAIProvider"
} - {"openai", "groq"}
"""Providers with the code of OpenAI and Groq, which `make heavy` and `make judge` ask."""


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(name, marks=[pytest.mark.heavy] if name in OF_ONE_DIALECT else [])
        for name in INSTALLED
    ],
)
def test_what_a_provider_sends_is_accepted_and_whole(provider: str) -> None:
    """A sample of what `make judge` does: one case in 113, the same ones every time."""
    run = asyncio.run(examined(JUDGE, RunOptions([provider], share=113)))
    if not run.cases:
        pytest.skip(f"{provider} makes no HTTP requests")
    assert run.sent > 0
    rows = [
        f"{what} ({count}): {found.outcome.case}" for _, what, _, count, found in run.rows(FAULTS)
    ]
    assert rows == []


NOT_SENT = (
    "blank texts", "empty texts", "prefill with space", "metadata that no API knows",
    "unfinished answer", "what another provider made", "foreign thinking", "own thinking",
    "call without a result", "result without a call",
)  # fmt: skip
"""Conversations of which few providers send everything."""


@pytest.mark.parametrize("provider", INSTALLED)
def test_what_a_provider_does_not_send_has_a_notice_with_its_path(provider: str) -> None:
    async def ask() -> Run:
        run = Run()
        async with Asker() as asker:
            if not asker.providers([provider]):
                pytest.skip(f"{provider} makes no HTTP requests")
            models = models_of(asker.catalog, provider, JUDGE)
            for case in [Case(provider, m, name, {}) for name in NOT_SENT for m in models[:2]]:
                outcome = await asker.outcome(case)
                run.count(JUDGE, outcome, outcome)
        return run

    run = asyncio.run(ask())
    assert run.sent > 0
    assert [(what, str(row.outcome.case)) for _, what, *_, row in run.rows([Kind.LOST])] == []


# -- which models --------------------------------------------------------------------------------


def _ids(provider: str, origin: str) -> set[str]:
    return {m.id for m in models_of(CATALOG, provider, JUDGE) if m.origin == origin}


def test_every_model_of_the_catalogue_is_asked() -> None:
    for provider in INSTALLED:
        listed = {info.id for info in CATALOG.models(provider)}
        assert listed <= {model.id for model in models_of(CATALOG, provider, JUDGE)}


def test_a_family_has_three_successors_that_nobody_lists() -> None:
    asked = models_of(CATALOG, "anthropic", JUDGE)
    opus = {m.id for m in asked if m.origin == "successor" and m.base == "claude-opus-5-5"}
    assert opus == {"claude-opus-5-6", "claude-opus-6", "claude-opus-6-5"}
    assert "gpt-5.7-terra" not in _ids("openai", "successor"), "only the newest has successors"


def test_dated_fine_tuned_and_alias_ids_are_asked() -> None:
    assert "claude-opus-5-5-20261015" in _ids("anthropic", "dated")
    assert "gpt-4.1-2026-10-15" in _ids("openai", "dated")
    assert "ft:gpt-4.1:acme::b7x9" in _ids("openai", "fine-tuned")
    assert _ids("anthropic", "fine-tuned") == set()
    assert "gemini-flash-latest" in _ids("gemini", "alias")


def test_who_lists_no_models_is_asked_for_those_of_whom_it_shares_rules_with() -> None:
    assert _ids("azure", "listed") == _ids("openai", "listed")
    assert _ids("vllm", "listed") == {"any"}


def test_a_sample_is_the_same_every_time_and_no_other_than_the_whole() -> None:
    models = [AskedModel("large", "listed", "large")]
    whole = [str(case) for case in cases_of("acme", models)]
    some = [str(case) for case in cases_of("acme", models, 10)]
    assert len(whole) == len(set(whole))
    assert 10 < len(some) < len(whole) / 4
    assert set(some) < set(whole)
    assert some == [str(case) for case in cases_of("acme", models, 10)]
    assert [zlib.crc32(case.encode()) % 10 for case in some] == [0] * len(some)


# -- what is found -------------------------------------------------------------------------------


UNPAIRED = ("call without a result", "result without a call", "unfinished answer")
"""Conversations with calls or results that stand alone; `Faithful` sends them unchanged."""


class Faithful(AcmeProvider):
    """Sends all that a call says, in no API's words but at Chat Completions' address."""

    features = HTTPProvider.features | {
        "images", "documents", "audio", "json", "structured_output", "system_messages", "strict",
    }  # fmt: skip
    knobs = dict.fromkeys(TUNING)
    path = "/chat/completions"

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Write the messages twice: unchanged, and in the form for a reader of requests."""
        messages: list[Any] = []
        for message in map(dump, context.messages):
            calls = [
                {"id": block["id"]}
                for block in message["content"]
                if isinstance(block, dict) and block["type"] == "tool_call"
            ]
            id = {"tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {}
            role = "tool" if id else message["role"]
            messages.append({"role": role, "content": "…", "tool_calls": calls, **id})
        said = {
            "messages": [dump(message) for message in context.messages],
            "system": context.system_prompt,
            "tools": [asdict(tool) for tool in context.tools],
        }
        given = {
            name: getattr(options, name)
            for name in sorted(options.names())
            if getattr(options, name) not in (None, (), {})
            and name not in ("timeouts", "retry", "headers", "rules", "base_url", "api_key")
        }
        return {"model": model.id, "messages": messages, "said": said, "options": given}

    def json_request(self, url: str, payload: Any, headers: Any = None) -> HTTPRequest:
        """Write what JSON has no form for by its repr."""
        body = msgspec.json.encode(payload, enc_hook=repr)
        return HTTPRequest(url, body, {"Content-Type": "application/json"})


class DropsFalsy(Faithful):
    """Takes zero for nothing."""

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Leave out what is false."""
        body = super().convert(model, context, options)
        body["options"] = {name: value for name, value in body["options"].items() if value}
        return body


class WritesTexts(Faithful):
    """Sends integers as protobuf's JSON has those of 64 bits: as text."""

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Write every number as text."""
        body = super().convert(model, context, options)
        body["options"] = {name: str(value) for name, value in body["options"].items()}
        return body


class DropsResults(Faithful):
    """Forgets what tools found."""

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Leave out the results."""
        payload = super().convert(model, context, options)
        for message in payload["said"]["messages"]:
            if message["role"] == "tool_result":
                message["content"] = ""
        return payload


class TellsOfSomethingElse(DropsResults):
    """Forgets what tools found, with notices of other things."""

    told: tuple[str, ...] = ("options.seed", "messages[20]", "messages[2].contents", "tools")

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Add a notice."""
        return (Notice("content_left_out", "it is gone", self.told),)


class TellsOfResults(TellsOfSomethingElse):
    """Forgets what tools found, with a notice that names it."""

    told = ("messages[2]",)


class TellsOfOptions(DropsFalsy):
    """Takes zero for nothing, with a notice about the seed."""

    def notices(self, model: Model, options: StreamOptions) -> tuple[Notice, ...]:
        """Add a notice."""
        return (Notice("option_ignored", "no seed", ("options.seed",)),)


class DropsCalls(Faithful):
    """Sends results of calls that it does not send."""

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Leave out the calls' ids."""
        payload = super().convert(model, context, options)
        for message in payload["messages"]:
            message["tool_calls"] = []
        return payload


class BendsSchemas(Faithful):
    """Leaves out what it does not know in a schema."""

    def convert(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """Leave out patterns."""
        payload = deepcopy(super().convert(model, context, options))
        for tool in payload["said"].get("tools", ()):
            for value in tool["parameters"].get("properties", {}).values():
                value.pop("pattern", None)
        return payload


def _host(provider: type[HTTPProvider]) -> Host:
    class EntryPoint:
        name, group, value = "acme", "swink.providers", "acme:Provider"
        dist = None

        def load(self) -> type[HTTPProvider]:
            return provider

    return Host(entry_points=[EntryPoint()])


async def _lost(provider: type[HTTPProvider], conversation: str, **options: Any) -> list[str]:
    model = AskedModel("any", "listed", "any")
    async with Asker(_host(provider)) as asker:
        plain = await asker.outcome(Case("acme", model, conversation, {}))
        outcome = await asker.outcome(Case("acme", model, conversation, options))
    assert outcome.asked is not None, outcome
    return lost_values(outcome, plain)


def test_nothing_is_lost_where_all_is_sent() -> None:
    model = AskedModel("any", "listed", "any")

    async def ask() -> None:
        async with Asker(_host(Faithful)) as asker:
            for case in cases_of("acme", [model]):
                outcome = await asker.outcome(case)
                assert outcome.fault is None
                if outcome.asked is not None:
                    plain = await asker.outcome(Case("acme", model, case.conversation, {}))
                    missing = lost_values(outcome, plain)
                    odd = case.conversation in UNPAIRED
                    assert missing == [] or odd, case

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("provider", "conversation", "options", "lost"),
    [
        (DropsFalsy, "plain", {"temperature": 0}, ["temperature=0"]),
        (DropsFalsy, "plain", {"presence_penalty": 0.0}, ["presence_penalty=0.0"]),
        (DropsFalsy, "plain", {"seed": 0}, ["seed=0"]),
        (DropsFalsy, "plain", {"temperature": 0.2, "seed": 7}, []),
        (WritesTexts, "plain", {"max_tokens": 1}, []),
        (WritesTexts, "plain", {"temperature": 0.5}, ["temperature=0.5"]),
        (DropsFalsy, "tools", {"parallel_tool_calls": False}, ["parallel_tool_calls=False"]),
        (DropsResults, "tool used", {}, ["nonce_result0"]),
        (DropsCalls, "tool used", {}, ["calls {} and results {'call_nonceA': 1}"]),
        (BendsSchemas, "schema deep", {}, ["^nonce_k+$"]),
        (TellsOfSomethingElse, "tool used", {}, ["nonce_result0"]),
        (TellsOfResults, "tool used", {}, []),
        (TellsOfResults, "tool used", {"seed": 7}, []),
        (TellsOfOptions, "plain", {"seed": 0}, []),
        (TellsOfOptions, "plain", {"temperature": 0}, ["temperature=0"]),
    ],
)
async def test_what_is_left_out_is_missed(
    provider: type[HTTPProvider], conversation: str, options: dict[str, Any], lost: list[str]
) -> None:
    assert await _lost(provider, conversation, **options) == lost


async def test_a_request_that_a_rule_refuses_is_found_once_for_each_rule_and_provider() -> None:
    about = {"provider": "mistral", "api": "chat", "model": ".", "message": "no"}
    known = {"source": "https://a", "confidence": "measured", "checked": "2026-11-25"}
    rule = Rule(id="no-plain", when=[["tools", "absent"]], status=422, **about, **known)
    ignored = Rule(id="no-sense", when=[["top_p", "present"]], status=200, **about, **known)
    large = RunOptions(["mistral"], 5, lambda model: "mistral-large-4" in model.id)
    run = await examined(Judge([rule, ignored]), large)
    kinds = {
        (kind, what) for kind, what, provider, _, _ in run.rows(FAULTS) if provider == "mistral"
    }
    assert {(Kind.REFUSED, "no-plain"), (Kind.WITHOUT_EFFECT, "no-sense")} <= kinds
    assert run.counts[Kind.REFUSED, "no-plain", "mistral"] > 10
    assert not run.unjudged


async def test_requests_to_apis_without_rules_are_counted_as_unjudged() -> None:
    about = {"provider": "mistral", "model": ".", "message": "no", "status": 400}
    known = {"source": "https://a", "confidence": "measured", "checked": "2026-11-25"}
    other = Rule(id="no", api="messages", when=[["tools", "present"]], **about, **known)
    large = RunOptions(["mistral"], 50, lambda model: "mistral-large-4" in model.id)
    run = await examined(Judge([other]), large)
    assert run.sent > 0
    assert run.unjudged == {("mistral", "chat"): run.sent}


def test_every_exception_has_a_reason_and_a_source() -> None:
    for excuse in excuses():
        assert excuse.kind.upper() in Kind.__members__, excuse
        assert set(excuse.provider.split("|")) <= {*JUDGE.providers, "proxy"}, excuse
        assert excuse.why, excuse
        assert excuse.source.startswith(("https://", "docs/")), excuse
