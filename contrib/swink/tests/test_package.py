"""The names and the import cost of `import swink`; mistakes of callers and their hints."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import swink
import swink_core

PLUGIN_AUTHORS = {"Classification", "Host", "ResponseHead", "Target"}
"""Names of the core's that no application needs."""


def test_the_names_of_the_core_that_applications_need_are_here_too() -> None:
    assert {*swink_core.__all__} - {*swink.__all__} == PLUGIN_AUTHORS


def test_every_name_is_there_and_named_once() -> None:
    assert len(swink.__all__) == len(set(swink.__all__))
    assert [name for name in swink.__all__ if not hasattr(swink, name)] == []
    assert {*swink.__all__} <= {*dir(swink)}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = swink.nothing  # type: ignore[attr-defined]  # on purpose


def test_importing_it_imports_nothing_beyond_the_core() -> None:
    program = (
        "import sys, swink_core; before = {*sys.modules}; import swink; "
        "print(*sorted({*sys.modules} - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["swink"]


def test_pydantic_is_imported_only_by_the_caller() -> None:
    program = (
        "import sys, swink\n"
        "def add(a: int, b: list[str]) -> int: ...\n"
        "client = swink.SyncClient()\n"
        "client.run('echo/tool', 'Hi', tools=[add]).result()\n"
        "client.answer('echo/echo', 'Hi', type=dict[str, int])\n"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def ask(question: str) -> str:
    """Ask."""
    return question


# (how it is called, part of the error)
MISTAKES: list[tuple[Any, str]] = [
    (lambda c: c.stream("echo/echo", "Hi", temprature=1), "did you mean 'temperature'?"),
    (lambda c: c.stream("echo/echo", "Hi", sistem_prompt="x"), "did you mean 'system_prompt'?"),
    (lambda c: c.stream("echo/echo", "Hi", max_tokens="ten"), "max_tokens='ten': expected `int"),
    (lambda c: c.stream("echo/echo", "Hi", tools=3), "tools are of type int"),
    (lambda c: c.stream("echo/echo", "Hi", tools=[len]), "Use run(…, tools=[…])"),
    (lambda c: c.complete("echo/echo", "Hi", tools=[swink.tool(len)]), "Use run(…, tools=[…])"),
    (lambda c: c.answer("echo/echo", "Hi", type=int, tools=len), "Use run(…, tools=[…])"),
    (lambda c: c.stream_answer("echo/echo", "Hi", type=int, temprature=1), "'temperature'?"),
    (lambda c: c.stream_answer("echo/echo", "Hi", type=object()), "has no JSON schema"),
    (
        lambda c: c.stream_answer("echo/echo", "Hi", type=print),
        "it is not a type",
    ),
    (lambda c: c.stream_answer("echo/echo", "Hi", type=swink.Usage(1)), "it is not a type"),
    (lambda c: c.stream("echo/echo", "Hi", type=int), "Call answer(…), stream_answer(…) or"),
    (lambda c: c.complete("echo/echo", "Hi", type=int), "Call answer(…), stream_answer(…) or"),
    (lambda c: c.answer("echo/echo", "Hi", type=int, temprature=1), "'temperature'?"),
    (lambda c: c.gather_answers("echo/echo", ["Hi"], type=int, limt=1), "did you mean 'limit'?"),
    (lambda c: c.run("echo/echo", "Hi", tools=[], temprature=1), "'temperature'?"),
    (lambda c: c.run("echo/echo", "Hi", tools=[], max_turn=1), "no option 'max_turn'"),
    (lambda c: c.run("echo/echo", "Hi", tools=[], type=object()), "has no JSON schema"),
    (
        lambda c: c.run("echo/echo", "Hi", tools=[], type=int, response_format="json"),
        "type and response_format cannot be combined",
    ),
    (
        lambda c: c.run("echo/echo", "Hi", tools=[swink.tool(name="answer")(ask)], type=int),
        "the tool name 'answer' is reserved",
    ),
    (
        lambda c: c.stream_answer("echo/echo", "Hi", tools=[swink.Tool("answer")], type=int),
        "the tool name 'answer' is reserved",
    ),
    (
        lambda c: c.stream_answer("echo/echo", "Hi", tools=[{"name": "answer"}], type=int),
        "the tool name 'answer' is reserved",
    ),
    (
        lambda c: c.run("echo/echo", "Hi", tools=[], type=int, corrections=-1),
        "corrections is less than 0",
    ),
    (lambda c: c.run("echo/echo", "Hi", tools=[], max_tuns=1), "did you mean 'max_turns'?"),
    (lambda c: c.run("echo/echo", "Hi", tools=[], aprove=print), "did you mean 'approve'?"),
    (
        lambda c: c.run("echo/echo", "Hi", tools=[], max_retries=1),
        "write retry=False to turn retries off",
    ),
    (lambda c: c.run("echo/echo", "Hi", tools=[], approve=3), "approve is of type int, which"),
    (
        lambda c: c.run("echo/echo", "Hi", tools=[], max_turns="3"),
        "max_turns is not a whole number",
    ),
    (lambda c: c.gather("echo/echo", ["Hi"], limt=1), "did you mean 'limit'?"),
    (lambda c: c.gather("echo/echo", ["Hi"], limit=1.5), "limit is not a whole number: 1.5"),
    (lambda c: c.gather("echo/echo", ["Hi"], on_progress=3), "on_progress is of type int, which"),
    (lambda c: c.complete("echo/echo", "Hi", temprature=1), "'temperature'?"),
    (lambda c: c.gather("echo/echo", ["Hi"], max_tokens="ten"), "max_tokens='ten'"),
    (lambda c: swink.Client(temprature=1), "'temperature'?"),
    (lambda c: swink.SyncClient(temprature=1), "'temperature'?"),
    (lambda c: swink.complete_sync("echo/echo", "Hi", temprature=1), "'temperature'?"),
    (lambda c: c.stream("echo/echo", [{"role": "user"}]), "content"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
@pytest.mark.parametrize("kind", [swink.Client, swink.SyncClient])
async def test_a_mistake_is_reported_with_a_hint_before_anything_is_sent(
    kind: Any, number: int
) -> None:
    call, said = MISTAKES[number]
    client = kind()
    with pytest.raises(swink.UsageError) as caught:
        await _done(call(client))
    assert said in str(caught.value)
    assert client.usage is None


async def _done(result: Any) -> None:
    if hasattr(result, "__await__"):
        await result
