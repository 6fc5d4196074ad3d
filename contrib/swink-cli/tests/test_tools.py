"""Tools that swink carries out: of plugins, Python files and MCP servers, by a person's leave."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService, Gate, HTTPError

from swink_cli.tools import ToolOptions
from swink_core import ToolCallBlock, UsageError
from swink_test_helpers.installed import install

WEATHER = '''
def get_weather(city: str, days: int = 1) -> str:
    """Tell the weather in a city."""
    return f"{city}: 18 in {days}"

def _helper(): ...
'''
SERVER = '''
from mcp.server import MCPServer

server = MCPServer("weather")

@server.tool()
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"{city}: sunny"

@server.tool()
def fail() -> str:
    raise ValueError("no such thing")

server.run()
'''
SOON = {"Retry-After": "0"}
PROMPT = ">\x1b[0m "
has_sdk = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra `mcp` is not installed")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "weather.py"
    path.write_text(WEATHER)
    return str(path)


def asks(call: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": call, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": f"c{call}", "function": function}]}


def test_functions_of_a_file_are_called_until_the_model_has_answered(swink: Any, file: str) -> None:
    with ChatService([asks("get_weather", city="Oslo")], ["It is cold."]) as service:
        given = ("--base-url", service.base_url, "--api-key", "sk-canary-0123456789")
        done = swink("ask", "-m", "openai/any", *given, "-y", "--functions", file, "Oslo?")
        swink("ask", "-c", *given, "Sure?")
    assert (done.returncode, done.stdout) == (0, "It is cold.\n")
    assert "get_weather: Oslo: 18 in 1" in done.stderr
    assert "openai/any · 2 turns · 6 tokens in, 10 out" in done.stderr
    assert [tool["function"]["name"] for tool in service.requests[0]["tools"]] == ["get_weather"]
    assert service.requests[1]["messages"][-1]["content"] == "Oslo: 18 in 1"
    roles = [message["role"] for message in service.requests[2]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


# what is asked for, what the model says before it calls a tool and after, what stdout has then
LAST: list[tuple[str, list[str], str, str, str]] = [
    ("JSON of a schema", ["--schema", "city"], "I look.", '{"city": "Oslo"}', '{"city": "Oslo"}'),
    ("JSON", ["--json"], '{"a": 1}', '{"b": 2}', '{"b": 2}'),
    ("a code block", ["-x"], "```\nfirst\n```", "```\nlast\n```", "last"),
    ("text", [], "I look.", "Cold.", "I look.\nCold."),
    ("text that may begin again", ["--restart"], "I look.", "Cold.", "I look.\nCold."),
]


@pytest.mark.parametrize(
    ("given", "before", "answer", "out"), [row[1:] for row in LAST], ids=[row[0] for row in LAST]
)
def test_data_on_stdout_is_only_the_final_answer(
    swink: Any, file: str, given: list[str], before: str, answer: str, out: str
) -> None:
    turns = [before, asks("get_weather", city="Oslo")], HTTPError(503, headers=SOON), [answer]
    with ChatService(*turns) as service:
        where = ("-m", "openai/any", "--base-url", service.base_url, "--api-key", "k")
        done = swink("ask", *where, "-y", "--functions", file, *given, "Oslo?")
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    told = f"text before the answer: {before}" in done.stderr
    assert told == (before.strip("`\n") not in out)
    assert "trying openai/any" in done.stderr
    assert "void" not in done.stderr  # what an earlier turn said is not


LOUD = """
import os, subprocess, sys, threading
print("at the top")

def f(city: str) -> str:
    print("in the tool")
    thread = threading.Thread(target=print, args=["in its thread"])
    thread.start(), thread.join()
    os.write(1, b"at the descriptor\\n")
    subprocess.run([sys.executable, "-c", "print('in a child')"])
    try:
        return input("a question?")
    except EOFError:
        return "no answer"
"""
SAID_BY_USERS = (
    "at the top", "in the tool", "in its thread", "at the descriptor", "in a child", "a question?"
)  # fmt: skip


def test_output_of_user_code_is_not_part_of_the_answer(swink: Any, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    given = ("--functions", str(tmp_path / "loud.py"))
    done = swink("ask", "-m", "echo/tool", "-y", *given, "--schema", "city", "Oslo")
    assert (done.returncode, list(json.loads(done.stdout))) == (0, ["city"])
    assert [said for said in SAID_BY_USERS if said not in done.stderr] == []
    done = swink("chat", "-m", "echo/tool", "-y", *given, stdin="Oslo\n")
    assert (done.returncode, done.stdout) == (0, "f returned: no answer\n")
    done = swink("tools", *given, "--json")
    assert [tool["name"] for tool in json.loads(done.stdout)] == ["f"]
    assert "at the top" in done.stderr
    assert swink("tools", *given).stdout == "f\n"


def test_output_of_user_code_is_visible_on_a_terminal(start: Any, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    given = ("-y", "--functions", str(tmp_path / "loud.py"))
    running = start("ask", "-m", "echo/tool", *given, "Oslo", size=(80, 24))
    running.wait_for("a question?")
    running.type("yes\n")
    running.wait_for("f returned: yes")
    assert running.finish() == 0
    assert all(said.encode() in running.output for said in SAID_BY_USERS)


def test_a_retry_voids_nothing_of_an_earlier_turn_on_a_screen(start: Any, file: str) -> None:
    turns = ["I look.", asks("get_weather", city="Oslo")], HTTPError(503, headers=SOON), ["Cold."]
    with ChatService(*turns) as service:
        where = ("-m", "openai/any", "--base-url", service.base_url, "--api-key", "k")
        running = start("ask", *where, "-y", "--functions", file, "Oslo?", size=(80, 24))
        running.wait_for("I look.")
        running.wait_for("trying openai/any")
        running.wait_for("Cold.")
        assert running.finish() == 0
    assert b"void" not in running.output


def test_functions_can_be_inline_code(swink: Any) -> None:
    code = 'def double(n: int) -> int:\n    "Double."\n    return 2 * n'
    done = swink("ask", "-m", "echo/tool", "-y", "--functions", code, "21")
    assert done.returncode == 0
    assert "double returned: " in done.stdout


def test_a_plugin_s_tool_is_found_by_name(swink: Any, tmp_path: Path) -> None:
    points = {"swink.tools": {"weather": "acme_tools:TOOLS", "broken": "acme_tools:absent"}}
    site = install(
        tmp_path, "acme-tools", points, {"acme_tools.py": WEATHER + "TOOLS = [get_weather]"}
    )
    there = {"PYTHONPATH": str(site)}
    done = swink("tools", **there)
    assert done.stdout == "get_weather  Tell the weather in a city.\n"
    assert (done.returncode, "tool broken of acme-tools cannot be loaded" in done.stderr) == (
        1,
        True,
    )
    done = swink("ask", "-m", "echo/tool", "-y", "-T", "weather", "Oslo", **there)
    assert done.stdout == "get_weather returned: Oslo: 18 in 1 days\n".replace(" days", "")
    for name, told in (("whether", "did you mean 'weather'?"), ("broken", "cannot be loaded")):
        done = swink("ask", "-m", "echo/tool", "-y", "-T", name, "Oslo", **there)
        assert (done.stdout, told in done.stderr) == ("", True)
    done = swink("ask", "-m", "echo/tool", "-T", "whether", "Oslo", **there)  # without leave
    assert (done.returncode, "did you mean 'weather'?" in done.stderr) == (2, True)


def test_a_model_that_always_calls_tools_is_stopped(swink: Any, file: str) -> None:
    given = ("-y", "--functions", file, "--max-turns", "1")
    done = swink("ask", "-m", "echo/tool", *given, "Oslo")
    assert (done.returncode, "the model still calls tools" in done.stderr) == (3, True)


# -- leave ---------------------------------------------------------------------------------------


def test_without_a_terminal_nothing_is_sent_before_someone_gave_leave(
    swink: Any, file: str
) -> None:
    with ChatService(["never"]) as service:
        given = ("-m", "openai/any", "--base-url", service.base_url, "--functions", file)
        for command, more in (("ask", ["Oslo?"]), ("chat", [])):
            done = swink(command, *given, "--api-key", "k", *more, stdin="Oslo?\n")
            assert (done.returncode, done.stdout) == (2, "")
            assert "pass --yes" in done.stderr
    assert service.requests == []


def test_tool_calls_need_approval_on_a_terminal(start: Any, file: str) -> None:
    running = start("chat", "-m", "echo/tool", "--functions", file, size=(80, 24))
    question = "lways, or a reason for no: "
    for city, answer, told in (
        ("Oslo", "not now", "They say: not now"),
        ("Rome", "n", "get_weather failed: The user did not allow this call."),
        ("Bern", "a", "get_weather returned: Bern: 18 in 1"),
    ):
        running.wait_for(PROMPT)
        running.type(f"{city}\n")
        running.wait_for(f'Run get_weather {{"city": "{city}", "days": 1}}?')
        running.wait_for(question)
        running.type(f"{answer}\n")
        running.wait_for(told)
        running.wait_for("so far: ")
    running.wait_for(PROMPT)
    running.type("Lund\n")  # always, from now on
    running.wait_for("get_weather returned: Lund: 18 in 1")
    running.wait_for(PROMPT)
    running.type("\x04")
    assert running.finish() == 0


def test_hidden_and_reordered_arguments_are_escaped(start: Any, file: str) -> None:
    turned = "Oslo\u202ekrapS\u200b\x9b8m"  # of which a terminal may show "OsloSpark"
    running = start("ask", "-m", "echo/tool", "--functions", file, turned, size=(80, 24))
    running.wait_for(r'Run get_weather {"city": "Oslo\u202ekrapS\u200b\u009b8m", "days": 1}?')
    running.type("n\n")
    assert running.finish() == 0


def test_all_of_long_arguments_can_be_seen(start: Any, file: str) -> None:
    running = start(
        "ask", "-m", "echo/tool", "--functions", file, f"{'x' * 3000}END", size=(80, 24)
    )
    running.wait_for("characters)?")
    assert b"END" not in running.output
    running.wait_for("lways, [w]hole, or a reason for no: ")
    running.type("w\n")
    running.wait_for("END")
    running.wait_for("lways, or a reason for no: ")
    running.type("n\n")
    assert running.finish() == 0


def test_input_typed_before_the_question_does_not_answer_it(start: Any, file: str) -> None:
    gate = Gate()
    with ChatService([gate, asks("get_weather", city="Oslo")], ["No."]) as service:
        given = ("--base-url", service.base_url, "--api-key", "sk-canary-0123456789")
        given = ("-m", "openai/any", *given, "--functions", file)
        running = start("ask", *given, "Oslo?", size=(80, 24))
        running.wait_for("waiting for")
        running.type("y\n")
        gate.open()
        running.wait_for("a reason for no: ")
        running.type("n\n")
        running.wait_for("did not allow this call")
        assert running.finish() == 0


def test_ctrl_c_at_the_question_carries_nothing_out(start: Any, file: str) -> None:
    running = start("ask", "-m", "echo/tool", "--functions", file, "Oslo", size=(80, 24))
    running.wait_for("a reason for no: ")
    running.interrupt()
    assert running.finish() == 130
    assert b"18 in" not in running.output


def test_ctrl_c_does_not_wait_for_tools(start: Any) -> None:
    code = "import threading\ndef f():\n    print('here')\n    threading.Event().wait()"
    running = start("ask", "-m", "echo/tool", "-y", "--functions", code, "Hi")
    running.wait_for_error("here")
    running.interrupt()
    assert running.finish() == 130


# -- MCP -----------------------------------------------------------------------------------------


@has_sdk
def test_a_server_s_tools_are_called(swink: Any, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    settings = tmp_path / "config.toml"
    settings.write_text(f'[mcp]\nweather = ["{sys.executable}", "{tmp_path / "server.py"}"]\n')
    with ChatService([asks("get_weather", city="Oslo"), asks("fail")], ["Sunny."]) as service:
        given = ("--base-url", service.base_url, "--api-key", "sk-canary-0123456789", "-y")
        more = {"SWINK_CONFIG": str(settings)}
        done = swink("ask", "-m", "openai/any", *given, "--mcp", "weather", "Oslo?", **more)
    assert (done.returncode, done.stdout) == (0, "Sunny.\n")
    assert "get_weather: Oslo: sunny" in done.stderr
    offered = service.requests[0]["tools"][0]["function"]
    assert (offered["name"], offered["parameters"]["required"]) == ("get_weather", ["city"])


@has_sdk
def test_a_server_s_results_are_shown_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Image
    from mcp.server.mcpserver.exceptions import ToolError

    from swink_cli import mcp_servers

    server = MCPServer("all")

    @server.tool(structured_output=False)
    def picture() -> list[Any]:
        return ["a pixel", Image(data=b"\x89PNG", format="png")]

    @server.tool()
    def numbers() -> dict[str, int]:
        return {"one": 1}

    @server.tool()
    def fail() -> str:
        raise ToolError("no such thing")

    monkeypatch.setattr(mcp_servers, "_target", lambda *_: server)

    async def call() -> list[Any]:
        async with mcp_servers.connected("all") as tools:
            calls = [ToolCallBlock("c", tool.definition.name, {}) for tool in tools]
            return [await t.carry_out(c) for t, c in zip(tools, calls, strict=True)]

    picture_, numbers_, failed = asyncio.run(call())
    assert [block.type for block in picture_.content] == ["text", "image"]
    assert picture_.content[1].source.data == "iVBORw=="
    assert json.loads(numbers_.content[0].text) == {"one": 1}
    assert (failed.is_error, "no such thing" in failed.content[0].text) == (True, True)


# -- mistakes ------------------------------------------------------------------------------------

MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("no such file", {"files": ["none.py"]}, "none.py: no such file"),
    ("code that fails", {"files": ["def f(: pass"]}, "SyntaxError"),
    ("no function", {"files": ["def _f(): ..."]}, "has no function"),
    ("no schema", {"files": ["def f(*a): ..."]}, "can be named by no model"),
    ("two of a name", {"files": ["def f(): ...", "def f(): ..."]}, "the name 'f'"),
    ("no such tool", {"names": ["nope"]}, "no plugin provides a tool 'nope'"),
]


@pytest.mark.parametrize(
    ("named", "told"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES]
)
async def test_a_mistake_is_named(named: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        async with ToolOptions(**named).opened():
            pass


def test_a_server_that_does_not_start_says_why(swink: Any) -> None:
    done = swink("ask", "-m", "echo/tool", "-y", "--mcp", f"{sys.executable} -c 1/0", "Hi")
    told = "pip install 'swink-cli[mcp]'" if find_spec("mcp") is None else "ZeroDivisionError"
    assert (done.returncode, done.stdout, told in done.stderr) == (2, "", True)
    assert done.stderr.startswith("Error: ")
