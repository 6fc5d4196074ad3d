"""Runs that wait for decisions on tool calls, are stored as JSON, and go on elsewhere."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from scripted_turns import Turns

import swink
from swink import PAUSE, PausedRun
from swink_recorder.loopback import Exchange, LoopbackServer

done: list[str] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    done.clear()


@swink.tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    done.append(path)
    return f"{path} is deleted"


def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is there"


CALLS: Any = [("look", {"path": "a"}), ("delete", {"path": "b"}), ("delete", {"path": "c"})]
TOOLS: list[Any] = [look, delete]


async def paused_run(**options: Any) -> PausedRun:
    """Pause a run, and return it as another process would read it."""
    async with swink.Client(plugins=[Turns(CALLS)]) as client:
        run = client.run("echo/echo", "Tidy up.", tools=TOOLS, **options)
        with pytest.raises(swink.RunPaused) as caught:
            await run.result()
        assert run.outcome == "paused"
        assert run.paused is caught.value.paused
        assert "delete (c1b), delete (c1c)" in str(caught.value)
    return swink.load(PausedRun, json.loads(json.dumps(swink.dump(caught.value.paused))))


async def resume(paused: PausedRun, *turns: Any, **options: Any) -> tuple[swink.Run, Turns]:
    plugin = Turns(*turns)
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", paused, tools=TOOLS, **options)
        await run.result()
    return run, plugin


async def test_a_run_waits_with_the_calls_that_need_approval_and_carries_out_the_rest() -> None:
    paused = await paused_run(system_prompt="Be brief.")
    assert [call.id for call in paused.pending] == ["c1b", "c1c"]
    assert [result.content for result in paused.results] == ["a is there"]
    assert (paused.turn, paused.system_prompt) == (1, "Be brief.")
    assert paused.usage == swink.Usage(1, 2, total=3, reported=True)
    assert done == []


class Reason(str):
    """A subclass of `str`, which JSON has no form for."""


# (decisions: what is done with the paused run, what was deleted, the results of both calls)
DECISIONS: list[tuple[Any, list[str], list[str]]] = [
    (
        lambda p: (p.approve("c1b"), p.approve(p.pending[0])),
        ["b", "c"],
        ["b is deleted", "c is deleted"],
    ),
    (
        lambda p: (p.approve("c1b"), p.refuse("c1c")),
        ["b"],
        ["b is deleted", "The user does not allow this call."],
    ),
    (
        lambda p: (
            p.refuse("c1b", Reason("Not on Sundays.")),
            p.approve("c1c", arguments={"path": "d"}),
        ),
        ["d"],
        ["Not on Sundays.", "d is deleted"],
    ),
    (
        lambda p: (p.refuse("c1b"), p.approve("c1c", arguments={"file": "d"})),
        [],
        ["The user does not allow this call.", "The arguments do not fit: path missing"],
    ),
]


@pytest.mark.parametrize(("decide", "deleted", "results"), DECISIONS)
async def test_a_paused_run_resumes_with_the_decisions(
    decide: Any, deleted: list[str], results: list[str]
) -> None:
    paused = await paused_run(system_prompt="Be brief.")
    decide(paused)
    stored = swink.load(PausedRun, swink.dump(paused))
    run, plugin = await resume(stored, "All done.")
    assert sorted(done) == deleted
    [context] = plugin.contexts
    assert [m.content for m in context.messages[2:]] == ["a is there", *results]
    assert context.system_prompt == "Be brief."
    assert (run.turns, run.outcome, run.message.text) == (2, "done", "All done.")
    assert run.conversation == [*context.messages, run.message]
    assert run.usage == swink.Usage(2, 4, total=6, reported=True)


async def test_a_resumed_run_may_pause_again_and_ends_with_a_value() -> None:
    paused = await paused_run()
    paused.approve("c1b")
    paused.approve("c1c")
    with pytest.raises(swink.RunPaused) as caught:
        await resume(paused, [("delete", {"path": "e"})])
    again = caught.value.paused
    assert [call.id for call in again.pending] == ["c1a"]
    assert again.turn == 2
    again.refuse("c1a")
    plugin = Turns('{"value": 3}')
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", again, tools=TOOLS, type=int)
        assert (await run.answer()).parsed == 3


async def test_events_say_which_tools_begin_and_end() -> None:
    paused = await paused_run()
    paused.approve("c1b")
    paused.refuse("c1c")
    async with swink.Client(plugins=[Turns("Done.")]) as client:
        events = [event async for event in client.run("echo/echo", paused, tools=TOOLS)]
    kinds = [type(event).__name__ for event in events]
    assert kinds[:3] == ["RunStart", "ToolStart", "ToolStart"]
    assert sorted(kinds[3:5]) == ["ToolEnd", "ToolEnd"]
    assert kinds[5] == "TurnStart"
    assert isinstance(events[-1], swink.RunEnd)


async def test_a_run_closed_while_resuming_has_a_complete_conversation() -> None:
    paused = await paused_run()
    paused.approve("c1b")
    paused.approve("c1c")
    async with swink.Client(plugins=[Turns("Done.")]) as client:
        run = client.run("echo/echo", paused, tools=TOOLS)
        async for event in run:
            if isinstance(event, swink.ToolStart):
                break
        await run.aclose()
    assert run.outcome == "aborted"
    assert [m.tool_call_id for m in run.conversation[2:]] == ["c1a", "c1b", "c1c"]  # type: ignore[union-attr]  # they are results


# (what `approve` returns, whether the run waits)
VERDICTS: list[tuple[Any, bool]] = [(True, False), (False, False), ("No.", False), (PAUSE, True)]


@pytest.mark.parametrize(("verdict", "waits"), VERDICTS)
async def test_a_function_decides_or_pauses(verdict: Any, waits: bool) -> None:
    async def approve(call: swink.ToolCallBlock) -> Any:
        return verdict

    plugin = Turns([("delete", {"path": "b"})], "Done.")
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Tidy up.", tools=TOOLS, approve=approve)
        _ = [event async for event in run]
    assert (run.outcome == "paused") == waits
    assert (run.paused is not None) == waits
    assert done == (["b"] if verdict is True else [])


@pytest.mark.parametrize("raised", [RuntimeError("no"), SystemExit(3)])
async def test_a_function_that_fails_refuses(raised: BaseException) -> None:
    def approve(call: swink.ToolCallBlock) -> bool:
        raise raised

    plugin = Turns([("delete", {"path": "b"})], "Done.")
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Tidy up.", tools=TOOLS, approve=approve)
        await run.result()
    assert type(raised).__name__ in str(run.conversation[2].content)


async def test_no_approval_is_requested_for_arguments_that_do_not_fit() -> None:
    plugin = Turns([("delete", {"file": "b"})], "Done.")
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", "Tidy up.", tools=TOOLS)
        assert (await run.result()).text == "Done."
    assert "do not fit" in str(run.conversation[2].content)


async def test_the_conversation_of_a_paused_run_can_be_sent_on() -> None:
    async with swink.Client(plugins=[Turns(CALLS, "Fine.")]) as client:
        run = client.run("echo/echo", "Tidy up.", tools=TOOLS)
        with pytest.raises(swink.RunPaused):
            await run.result()
        assert [getattr(m, "is_error", None) for m in run.conversation] == [
            None, None, False, True, True,
        ]  # fmt: skip
        said = [*run.conversation, swink.UserMessage("Leave them.")]
        assert (await client.complete("echo/echo", said)).text == "Fine."


async def test_a_call_is_decided_once_and_all_are() -> None:
    paused = await paused_run()
    paused.approve("c1b")
    for call in ("c1a", "c1b", "nobody's"):
        with pytest.raises(swink.UsageError, match="no tool call") as caught:
            paused.refuse(call)
        assert "c1c" in caught.value.resolution
    async with swink.Client() as client:
        with pytest.raises(swink.UsageError, match=r"wait for a decision: delete \(c1c\)"):
            client.run("echo/echo", paused, tools=TOOLS)


async def test_a_decision_on_a_call_does_not_apply_to_another_that_had_its_id() -> None:
    calls = [{"name": "delete", "arguments": {"path": path}, "id": "c1"} for path in "bc"]
    script = [{"calls": calls}, {"reply": "Done."}]
    settings = {"script": script}
    async with swink.Client() as client:
        run = client.run("echo/echo", "Tidy up.", tools=TOOLS, settings=settings)
        with pytest.raises(swink.RunPaused) as caught:
            await run.result()
        paused = caught.value.paused
        paused.approve("c1", arguments={"path": "d"})
        [other] = paused.pending
        paused.refuse(other)
        resumed = client.run("echo/echo", paused, tools=TOOLS, settings=settings)
        await resumed.result()
    assert done == ["d"]
    said = [(m.tool_call_id, m.content) for m in resumed.conversation if m.role == "tool_result"]
    assert said == [("c1", "d is deleted"), (other.id, "The user does not allow this call.")]


async def test_stored_calls_with_the_same_id_are_not_carried_out() -> None:
    stored = json.loads(json.dumps(swink.dump(await paused_run())).replace("c1c", "c1b"))
    with pytest.raises(swink.UsageError, match="several tool calls with the id 'c1b'"):
        swink.load(PausedRun, stored).approve("c1b")
    paused = swink.load(PausedRun, {**stored, "decisions": {"c1b": {"approved": True}}})
    async with swink.Client() as client:
        with pytest.raises(swink.UsageError, match="several tool calls with the id 'c1b'"):
            client.run("echo/echo", paused, tools=TOOLS)
    assert done == []


async def test_the_error_of_a_paused_run_can_be_pickled() -> None:
    error = swink.RunPaused(await paused_run())
    assert pickle.loads(pickle.dumps(error)).paused == error.paused


RESUMED = """
import json, sys
import swink

@swink.tool(needs_approval=True)
def delete(path: str) -> str:
    return f"{path} is deleted"

def look(path: str) -> str:
    return ""

paused = swink.load(swink.PausedRun, json.load(sys.stdin))
for call in paused.pending:
    paused.approve(call)
with swink.SyncClient() as client:
    run = client.run("echo/tool", paused, tools=[look, delete])
    print(run.result().text)
    print([message.content for message in run.conversation[2:5]])
"""


async def test_a_paused_run_resumes_in_another_process() -> None:
    stored = json.dumps(swink.dump(await paused_run()))
    result = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", RESUMED],
        input=stored,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "['a is there', 'b is deleted', 'c is deleted']" in result.stdout


@pytest.mark.parametrize("max_turns", [1, 2])
async def test_turns_before_a_pause_count_toward_max_turns(max_turns: int) -> None:
    paused = swink.replace(await paused_run(), turn=2)
    for call in paused.pending:
        paused.approve(call)
    plugin = Turns()
    async with swink.Client(plugins=[plugin]) as client:
        run = client.run("echo/echo", paused, tools=TOOLS, max_turns=max_turns)
        with pytest.raises(swink.TooManyTurns, match="after turn 2"):
            await run.result()
    assert (run.outcome, run.turns, plugin.contexts) == ("max_turns", 2, [])
    assert sorted(done) == ["b", "c"]
    assert [getattr(m, "content", None) for m in run.conversation[-2:]] == [
        "b is deleted", "c is deleted",
    ]  # fmt: skip


@pytest.mark.parametrize("cost", [None, swink.Cost()])
async def test_the_cost_of_a_paused_run_is_unknown_without_a_price(cost: swink.Cost | None) -> None:
    paused = swink.replace(await paused_run(), cost=cost, spent=None)
    assert paused.charge == swink.Charge(3, None)


async def test_the_known_parts_of_a_cost_count_if_the_total_of_a_paused_run_is_unknown() -> None:
    cost = swink.Cost(input=0.5, output=0.25, estimated=True)
    paused = swink.replace(
        await paused_run(), cost=cost, spent=None
    )  # as earlier versions stored it
    assert paused.charge == swink.Charge(3, 0.75, estimated=True)


@pytest.mark.parametrize("limits", [swink.Limits(turns=1), swink.Limits(tokens=3)])
async def test_limits_count_what_a_run_spent_before_its_pause(limits: swink.Limits) -> None:
    paused = await paused_run()
    for call in paused.pending:
        paused.approve(call)
    assert paused.charge == swink.Charge(3, 0.0)
    with pytest.raises(swink.LimitReached):
        await resume(paused, "Done.", limits=limits)
    run, _ = await resume(paused, "Done.", limits=swink.Limits(turns=2, tokens=10_000))
    assert (run.turns, run.outcome) == (2, "done")


class Silent(LoopbackServer):
    """Answers every request by a tool call, without usage."""

    async def respond(self, exchange: Exchange) -> None:
        function = {"name": "delete", "arguments": '{"path": "b"}'}
        call = {"index": 0, "id": "c1", "type": "function", "function": function}
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        data = json.dumps({"id": "1", "model": "m", "choices": [choice]})
        await exchange.start(headers={"Content-Type": "text/event-stream"})
        await exchange.write(f"data: {data}\n\ndata: [DONE]\n\n".encode())
        await exchange.end()


async def test_limits_count_an_estimate_before_a_pause_if_no_usage_was_reported() -> None:
    prompt: Any = "Tidy up. " * 100
    with Silent() as server:
        own = {"openai": {"base_url": server.url, "api_key": "k", "settings": {"api": "chat"}}}
        async with swink.Client(providers=own, max_tokens=100) as client:
            for _ in range(2):
                with pytest.raises(swink.RunPaused) as caught:
                    await client.run("openai/gpt-4o", prompt, tools=TOOLS).result()
                prompt = swink.load(PausedRun, swink.dump(caught.value.paused))
                assert prompt.usage is None
                assert prompt.charge == client.charge
                prompt.approve(prompt.pending[0])
            spent = client.charge.tokens
            limits = swink.Limits(tokens=spent)
            with pytest.raises(swink.LimitReached, match=f"{spent} tokens are spent"):
                await client.run("openai/gpt-4o", prompt, tools=TOOLS, limits=limits).result()


async def test_a_paused_run_stored_without_its_charge_can_be_loaded() -> None:
    stored = swink.dump(await paused_run())
    del stored["spent"]
    assert swink.load(PausedRun, stored).charge == swink.Charge(3, 0.0)


async def decided_run() -> Any:
    """Return the JSON data of a paused run in which one call has a decision."""
    paused = await paused_run()
    paused.approve("c1b")
    return json.loads(json.dumps(swink.dump(paused)))


async def test_whole_numbers_of_a_stored_run_with_a_decision_may_be_floats() -> None:
    stored = await decided_run()
    stored["usage"]["input"] = float(stored["usage"]["input"])
    assert swink.dump(swink.load(PausedRun, stored)) == await decided_run()


FILE = {"type": "document", "source": {"type": "file", "path": "a.pdf"}}

# (field, its damaged value in a stored run with a decision, fault)
DAMAGED: list[tuple[str, Any, str]] = [
    ("messages", [{"role": "user", "content": [FILE]}],
     r"allow_files=True.* @ \$\.messages\[0\]\.content\[0\]\.source"),
    ("usage", {"input": "x"}, r"got `str`: 'x' @ \$\.usage\.input"),
    ("decisions", {"c1b": {"reason": "old"}},
     r"required field missing @ \$\.decisions\['c1b'\]\.approved"),
    ("decisions", {"c1b": {"approved": "no"}}, r"'no' @ \$\.decisions\['c1b'\]\.approved"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "fault"), DAMAGED)
async def test_a_damaged_run_with_a_decision_is_refused_by_place_and_reason(
    field: str, value: Any, fault: str
) -> None:
    stored = await decided_run()
    with pytest.raises(swink.CodecError, match=fault):
        swink.load(PausedRun, {**stored, field: value})
