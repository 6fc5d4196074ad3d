"""Tool loops as spans: whose child each one is, how each ends, and what it says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode
from telemetry import CAPTURE, Telemetry

import swink
from swink_observer_otel.observer import OTelObserver
from swink_observers.background import Background

PROGRAM = TracerProvider(shutdown_on_exit=False).get_tracer("program")


async def a() -> str:
    """Say A."""
    return "A."


def b() -> str:
    return "B."


async def c() -> str:
    raise LookupError("c is out")


@pytest.fixture
def told() -> Telemetry:
    return Telemetry()


async def run_of(
    observer: Any, model: str = "echo/tools", tools: Any = (a, b, c), **options: Any
) -> swink.Run:
    async with swink.Client(plugins=[observer], retry=False) as client:
        run = client.run(model, "Go.", tools=[*tools], **options)
        async for _ in run:
            pass
    return run


def names(spans: list[ReadableSpan]) -> list[str]:
    return sorted(span.name for span in spans)


def below(told: Telemetry, parent: ReadableSpan | None) -> list[ReadableSpan]:
    """The spans whose parent is this one; with `None`, those that have none."""
    above = parent.context.span_id if parent and parent.context else None
    return [s for s in told.finished if (s.parent.span_id if s.parent else None) == above]


def named(told: Telemetry, name: str) -> ReadableSpan:
    [span] = [span for span in told.finished if span.name == name]
    return span


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# -- whose child each is -------------------------------------------------------------------------


async def test_a_run_of_three_tools_in_two_turns_is_one_tree(told: Telemetry) -> None:
    await run_of(told.observer(), session_id="visit-7")
    [run] = below(told, None)
    assert names(below(told, run)) == [
        "chat tools", "chat tools", "execute_tool a", "execute_tool b", "execute_tool c",
    ]  # fmt: skip
    for span in below(told, run):
        is_turn = span.name == "chat tools"
        assert span.kind is (SpanKind.CLIENT if is_turn else SpanKind.INTERNAL)
        assert names(below(told, span)) == (["attempt 1"] if is_turn else [])
    assert len(told.finished) == 8
    assert (run.name, run.kind, said(run)) == (
        "invoke_agent",
        SpanKind.INTERNAL,
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.request.model": "tools",
            "gen_ai.conversation.id": "visit-7",
            "gen_ai.response.finish_reasons": ("stop",),
            "swink.turns": 2,
            "swink.outcome": "done",
        },
    )
    assert run.status.status_code is StatusCode.UNSET


async def test_a_tools_span_says_what_was_called_and_how_it_ended(told: Telemetry) -> None:
    run = await run_of(told.observer())
    ids = {call.name: call.id for call in run.conversation[1].tool_calls}  # type: ignore[union-attr]
    for name, status in (("a", StatusCode.UNSET), ("c", StatusCode.ERROR)):
        span = named(told, f"execute_tool {name}")
        expected = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": ids[name],
            "gen_ai.tool.description": "Say A." if name == "a" else "",
        }
        if status is StatusCode.ERROR:
            expected["error.type"] = "tool_error"
        assert said(span) == expected
        assert (span.status.status_code, span.status.description) == (status, None)


async def test_calls_that_a_model_gave_the_same_id_have_a_span_each(told: Telemetry) -> None:
    calls = [{"name": name, "arguments": {}, "id": "c1"} for name in "ab"]
    script = [{"calls": calls}, {"reply": "Done."}]
    run = await run_of(told.observer(), "echo/echo", settings={"script": script})
    ids = [call.id for call in run.conversation[1].tool_calls]  # type: ignore[union-attr]
    spans = [named(told, f"execute_tool {name}") for name in "ab"]
    assert [said(span)["gen_ai.tool.call.id"] for span in spans] == ids
    assert len({*ids}) == 2


async def test_what_a_tool_does_is_below_its_span_and_nothing_else_is(told: Telemetry) -> None:
    observer = told.observer()
    seen: dict[str, int] = {}

    def current() -> int:
        return trace.get_current_span().get_span_context().span_id

    async def a() -> str:
        seen["execute_tool a"] = current()
        return (await run_of(observer, "echo/tool", [inner])).message.text

    def b() -> str:  # in a thread
        seen["execute_tool b"] = current()
        return ""

    async def inner() -> str:
        return "in"

    with PROGRAM.start_as_current_span("handle") as outer:
        async with swink.Client(plugins=[observer]) as client:
            async for _ in client.run("echo/tools", "Go.", tools=[a, b, c]):
                assert trace.get_current_span() is outer
    spans = {span.name: span.context for span in told.finished}
    for name, span_id in seen.items():
        context = spans[name]
        assert context is not None
        assert context.span_id == span_id
    [agent] = below(told, named(told, "execute_tool a"))
    assert agent.name == "invoke_agent"
    assert names(below(told, agent)) == ["chat tool", "chat tool", "execute_tool inner"]
    [whole] = [s for s in told.finished if s.name == "invoke_agent" and s is not agent]
    assert whole.parent is not None
    assert whole.parent.span_id == outer.get_span_context().span_id


def test_without_await_a_run_is_below_the_span_of_its_thread(told: Telemetry) -> None:
    span = PROGRAM.start_as_current_span("handle")
    with span as outer, swink.SyncClient(plugins=[told.observer()]) as client:
        for _ in client.run("echo/tools", "Go.", tools=[a, b, c]):
            assert trace.get_current_span() is outer
    run = named(told, "invoke_agent")
    assert run.parent is not None
    assert run.parent.span_id == outer.get_span_context().span_id
    assert len(below(told, run)) == 5


async def test_runs_at_the_same_time_keep_apart(told: Telemetry) -> None:
    async with swink.Client(plugins=[told.observer()]) as client:
        runs = [client.run("echo/tools", "Go.", tools=[a, b, c]) for _ in range(5)]
        await asyncio.gather(*(run.result() for run in runs))
    trees = below(told, None)
    assert len(trees) == 5
    for run in trees:
        assert len(below(told, run)) == 5


# -- how each ends -------------------------------------------------------------------------------

# (the model, the limit of turns, the outcome, the status, error.type)
ENDS = [
    ("echo/tool", 5, "done", StatusCode.UNSET, None),
    ("echo/fail-auth", 5, "error", StatusCode.ERROR, "auth"),
    ("echo/tool", 1, "max_turns", StatusCode.ERROR, "max_turns"),
]


@pytest.mark.parametrize(("model", "limit", "outcome", "status", "kind"), ENDS)
async def test_a_run_ends_as_it_did(
    told: Telemetry, model: str, limit: int, outcome: str, status: StatusCode, kind: str | None
) -> None:
    run = await run_of(told.observer(), model, [a], max_turns=limit)
    span = named(told, "invoke_agent")
    assert run.outcome == said(span)["swink.outcome"] == outcome
    assert (span.status.status_code, said(span).get("error.type")) == (status, kind)


async def test_a_run_that_is_left_ends_all_its_spans_and_is_no_error(told: Telemetry) -> None:
    observer = told.observer()

    async def never() -> None:
        await asyncio.Event().wait()

    async with swink.Client(plugins=[observer]) as client:
        points = (swink.RunStart, swink.TurnStart, swink.ToolCallStart, swink.ToolStart)
        for total, until in enumerate(points, 1):
            async with client.run("echo/tool", "Go.", tools=[never]) as run:
                async for event in run:
                    if isinstance(event, until):
                        break
            agents = [span for span in told.finished if span.name == "invoke_agent"]
            assert len(agents) == total
            assert said(agents[-1])["swink.outcome"] == "aborted"
    assert {span.status.status_code for span in told.finished} == {StatusCode.UNSET}
    assert "execute_tool never" in names([*told.finished])
    assert observer._runs._running == observer._runs._turns == {}


async def test_the_conventions_durations_are_measured(told: Telemetry) -> None:
    await run_of(told.observer())
    points = told.points()
    [run] = points["gen_ai.invoke_agent.duration"]
    tools = {p.attributes["gen_ai.tool.name"]: p for p in points["gen_ai.execute_tool.duration"]}
    assert run.count == 1
    assert {name: p.attributes.get("error.type") for name, p in tools.items()} == {
        "a": None, "b": None, "c": "tool_error",
    }  # fmt: skip


# -- content -------------------------------------------------------------------------------------


async def test_content_is_captured_when_the_standard_variable_asks_for_it(
    told: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURE, "SPAN_ONLY")

    def picture() -> list[Any]:
        return ["Look:", swink.image(b"\x89PNG\r\n\x1a\n")]

    await run_of(told.observer(), "echo/tools", [picture, c], system_prompt="Be brief.")
    run, shown, failed = (
        said(named(told, name))
        for name in ("invoke_agent", "execute_tool picture", "execute_tool c")
    )
    assert json.loads(run["gen_ai.system_instructions"])[0]["content"] == "Be brief."
    assert [m["role"] for m in json.loads(run["gen_ai.input.messages"])] == ["user"]
    [answer] = json.loads(run["gen_ai.output.messages"])
    assert answer["finish_reason"] == "stop"
    assert "c is out" in answer["parts"][0]["content"]
    assert [d["name"] for d in json.loads(run["gen_ai.tool.definitions"])] == ["picture", "c"]
    assert json.loads(shown["gen_ai.tool.call.arguments"]) == {}
    parts = json.loads(shown["gen_ai.tool.call.result"])
    assert [part["type"] for part in parts] == ["text", "blob"]
    assert failed["gen_ai.tool.call.result"] == "LookupError: c is out"
    assert named(told, "execute_tool c").status.description == "LookupError: c is out"


async def test_every_attribute_is_one_of_the_conventions_or_swinks_own(told: Telemetry) -> None:
    await run_of(told.observer())
    known = {value for name, value in vars(gen_ai_attributes).items() if name.isupper()}
    found = {name for span in told.finished for name in said(span)}
    ours = {name for name in found if not name.startswith("gen_ai.")}
    assert {name.split(".")[0] for name in ours} == {"swink", "error"}
    assert found - ours - known <= {"gen_ai.response.time_to_first_chunk", "gen_ai.request.stream"}


# -- who observes --------------------------------------------------------------------------------


async def test_the_installed_one_gives_way_to_one_that_the_program_has_made(
    told: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, installed = told.observer(), Telemetry()
    other = installed.observer()
    monkeypatch.setattr("swink_observer_otel.observer.shared", lambda: other)
    async with swink.Client(plugins=[mine, other]) as client:
        await client.run("echo/tool", "Go.", tools=[a]).result()
    assert len(below(told, None)) == 1
    assert installed.finished == ()


async def test_from_a_thread_of_its_own_the_tree_is_the_same(told: Telemetry) -> None:
    async with Background(told.observer()) as observer:
        for _ in range(2):
            await run_of(observer)
    assert [len(below(told, run)) for run in below(told, None)] == [5, 5]


def test_it_asks_for_the_events_of_runs() -> None:
    assert OTelObserver.other_events
