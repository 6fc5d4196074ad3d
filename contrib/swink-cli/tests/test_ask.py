"""`swink ask` and `swink events` as processes, against servers that are not ours and echo."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from chat_service import CUT, ChatService, Gate, HTTPError

from swink_testing.command_line import swink_command

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
KEY = "sk-canary-0123456789"
FULL = Path("/dev/full")


def to(service: ChatService, *more: str) -> tuple[str, ...]:
    """The arguments that ask a service of the Chat Completions shape."""
    return ("ask", "-m", "openai/any", "--base-url", service.base_url, "--api-key", KEY, *more)


# -- the answer ----------------------------------------------------------------------------------


def test_text_is_on_stdout_before_the_answer_has_ended(start: Any) -> None:
    gate = Gate()
    with ChatService(["Hello, ", gate, "world."]) as service:
        running = start(*to(service, "Greet"))
        running.wait_for("Hello, ")
        assert b"world" not in running.output
        gate.open()
        assert running.finish() == 0
    assert running.output == b"Hello, world.\n"


def test_stdout_has_the_answer_and_nothing_else(swink: Any) -> None:
    thinking = {"reasoning_content": "Let me see."}
    call = {"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    with ChatService([thinking, "**Blue**\n", {"tool_calls": [call]}]) as service:
        done = swink(*to(service, "Why?"))
    assert (done.returncode, done.stdout) == (0, "**Blue**\n")
    assert "Let me see." in done.stderr
    assert 'tool call: look {"at": "sky"}' in done.stderr


def test_the_summary_has_model_tokens_cost_and_speed(swink: Any) -> None:
    gate = "-o", "settings.script.delay=0.02"
    done = swink("ask", "-m", "echo/think", *gate, "one two three")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("echo/think · 3 tokens in, 13 out (10 thinking) · $0 · first token ")
    assert last.endswith(" tokens/s")


def test_the_end_names_the_model_that_answered(swink: Any) -> None:
    with ChatService(["Hi"]) as service:
        done = swink(*to(service, "Hi"))
    assert "openai/any (any-2) · 3 tokens in, 5 out" in done.stderr


def test_output_outside_a_terminal_has_no_styles(swink: Any) -> None:
    done = swink("ask", "-m", "echo/think", "**bold**")
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stdout == "**bold**\n"


def test_text_outside_the_output_encoding_is_escaped(swink: Any) -> None:
    done = swink("ask", "-m", "echo/echo", "naïve 🌊", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "na?ve ?\n")


# -- what is sent --------------------------------------------------------------------------------


def test_piped_input_comes_before_the_prompt(swink: Any) -> None:
    with ChatService(["ok"]) as service:
        swink(*to(service, "Review", "this"), stdin="diff --git\n")
    assert service.requests[0]["messages"] == [
        {"role": "user", "content": "diff --git\n\nReview this"}
    ]


def test_piped_input_alone_is_a_prompt(swink: Any) -> None:
    assert swink("ask", "-m", "echo/echo", stdin="from a pipe\n").stdout == "from a pipe\n"


OPTIONS: list[tuple[str, list[str], dict[str, Any]]] = [
    ("temperature", ["--temperature", "0.5"], {"temperature": 0.5}),
    ("system prompt", ["-s", "Be brief"], {}),
    ("Maximum number", ["--max-tokens", "7"], {"max_completion_tokens": 7}),
    ("thinking", ["--thinking", "low"], {"reasoning_effort": "low"}),
    ("JSON", ["--json"], {"response_format": {"type": "json_object"}}),
    ("any option", ["-o", "top_p=0.9", "-o", "seed=4"], {"top_p": 0.9, "seed": 4}),
    ("text that reads like a number", ["-o", "stop=[\"1\"]"], {"stop": ["1"]}),
    ("extra", ["-o", "extra.user=me", "-o", "extra.a.b=1"], {"user": "me", "a": {"b": 1}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"), [row[1:] for row in OPTIONS], ids=[row[0] for row in OPTIONS]
)
def test_options_reach_the_request(
    swink: Any, arguments: list[str], expected: dict[str, Any]
) -> None:
    with ChatService(['{"ok": true}']) as service:
        done = swink(*to(service, *arguments, "Hi"))
    assert done.returncode == 0
    sent = service.requests[0]
    assert {name: sent[name] for name in expected} == expected
    if "-s" in arguments:
        assert sent["messages"][0]["content"] == "Be brief"


def test_headers_and_key_are_sent_and_not_shown(swink: Any) -> None:
    with ChatService(HTTPError(401, f"bad key {KEY}")) as service:
        done = swink("--debug", *to(service, "-o", "headers.X-Team=blue", "Hi"))
    headers = service.exchanges[0].headers
    assert (headers["authorization"], headers["x-team"]) == (f"Bearer {KEY}", "blue")
    assert done.returncode == 1
    assert KEY not in done.stdout + done.stderr


def test_schema_tools_and_files_are_read_and_sent(swink: Any, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = {"name": "look", "description": "Looks", "parameters": {"type": "object"}}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    (tmp_path / "tool.json").write_text(json.dumps([tool]))
    (tmp_path / "dot.png").write_bytes(PIXEL)
    (tmp_path / "notes.md").write_text("Remember")
    with ChatService(["ok"]) as service:
        swink(
            *to(service, "--schema", str(tmp_path / "schema.json")),
            *("--tool", str(tmp_path / "tool.json"), "--image", str(tmp_path / "dot.png")),
            *("--attach", str(tmp_path / "notes.md"), "What is this?"),
        )
    sent = service.requests[0]
    assert sent["response_format"]["json_schema"]["schema"] == schema
    assert sent["tools"][0]["function"]["name"] == "look"
    image, notes, words = sent["messages"][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert notes["text"] == "notes.md:\n\nRemember"
    assert words["text"] == "What is this?"


def test_the_model_may_come_from_the_environment(swink: Any) -> None:
    assert swink("ask", "Hi", SWINK_MODEL="echo/echo").stdout == "Hi\n"


def test_the_key_may_come_from_the_providers_variable(swink: Any) -> None:
    with ChatService(["ok"]) as service:
        swink(
            *("ask", "-m", "openai/any", "Hi"),
            OPENAI_BASE_URL=service.base_url,
            OPENAI_API_KEY=KEY,
        )
    assert service.exchanges[0].headers["authorization"] == f"Bearer {KEY}"


# -- failure -------------------------------------------------------------------------------------


def test_a_failure_gives_title_message_and_resolution_and_keeps_the_text(swink: Any) -> None:
    with ChatService(["Half an ans", CUT]) as service:
        done = swink(*to(service, "Hi"))
    assert (done.returncode, done.stdout) == (1, "Half an ans\n")
    title, message, resolution = done.stderr.splitlines()[:3]
    assert title == "Error: OpenAI or the connection to it failed"
    assert message
    assert "try again later" in resolution


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("auth", "Error: Echo does not accept the credentials"),
        ("context-window-exceeded", "Error: The conversation is too long for echo/fail-"),
        ("internal", "Error: A plugin failed"),
        ("model-not-found", "Error: Model echo/fail-model-not-found is not available"),
    ],
)
def test_every_failure_has_a_title_for_people(swink: Any, kind: str, title: str) -> None:
    done = swink("ask", "-m", f"echo/fail-{kind}", "Hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(title)
    assert "Traceback" not in done.stderr


def test_a_retry_is_announced_and_the_answer_comes_once(swink: Any) -> None:
    with ChatService(HTTPError(503, "busy"), ["Fine."]) as service:
        done = swink(*to(service, "-o", "retry.base=0", "Hi"))
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert "busy; trying openai/any now (attempt 2 of 6)" in done.stderr
    assert done.stderr.rstrip().endswith("2 attempts")


def test_the_next_model_of_a_chain_answers(swink: Any) -> None:
    done = swink("ask", "-m", "echo/fail-quota-exhausted,echo/echo", "Hi")
    assert (done.returncode, done.stdout) == (0, "Hi\n")
    assert "trying echo/echo now" in done.stderr


def test_printed_text_is_not_restarted(swink: Any) -> None:
    with ChatService(["One", CUT], ["Two"]) as service:
        done = swink(*to(service, "-o", "retry.base=0", "Hi"))
    assert (done.returncode, done.stdout) == (1, "One\n")
    assert len(service.requests) == 1


def test_with_restart_only_the_answer_that_counts_is_written(swink: Any) -> None:
    with ChatService(["One", CUT], ["Two"]) as service:
        done = swink(*to(service, "--restart", "-o", "retry.base=0", "Hi"))
    assert (done.returncode, done.stdout) == (0, "Two\n")


@pytest.mark.parametrize(("retry", "end"), [("true", (0, "Two\n")), ("false", (1, "One\n"))])
def test_restart_keeps_to_a_policy_that_is_only_true_or_false(
    swink: Any, retry: str, end: tuple[int, str]
) -> None:
    with ChatService(["One", CUT], ["Two"]) as service:
        done = swink(*to(service, "--restart", "-o", f"retry={retry}", "Hi"))
    assert (done.returncode, done.stdout) == end


def test_notices_are_shown(swink: Any) -> None:
    done = swink("ask", "-m", "echo/echo", "-o", "seed=3", "Hi")
    assert "notice: echo/echo does not support seed" in done.stderr


def test_a_model_is_known_by_its_id_alone_where_one_provider_lists_it(swink: Any) -> None:
    assert swink("ask", "-m", "json", "Hi").stdout == swink("ask", "-m", "echo/json", "Hi").stdout
    named = swink("ask", "Hi", SWINK_MODEL="echo")
    assert (named.returncode, named.stdout) == (0, "Hi\n")


# (how often it is tried again, the option that says so)
RETRIES = [
    (0, "retry=false"),
    (1, "retry.retries.overloaded=1"),
    (0, "retry.retries.overloaded=0"),
]


@pytest.mark.parametrize(("retries", "option"), RETRIES, ids=[option for _, option in RETRIES])
def test_the_number_of_retries_can_be_set(swink: Any, retries: int, option: str) -> None:
    at_once = ["-o", "retry.base=0"] if retries else []
    done = swink("ask", "-m", "echo/fail-overloaded", *at_once, "-o", option, "Hi")
    assert done.returncode == 1
    assert done.stderr.count("trying echo/fail-overloaded") == retries


def test_a_misspelt_model_is_reported_but_used(swink: Any) -> None:
    done = swink("ask", "-m", "echo/ecko", "Hi")
    assert "notice: echo/ecko is not in the catalogue; did you mean echo/echo?" in done.stderr
    assert "notice" not in swink("ask", "-m", "echo/fail-auth-after-1", "Hi").stderr
    assert "Error: Model echo/ecko is not available" in done.stderr


# -- leaving -------------------------------------------------------------------------------------


def test_ctrl_c_closes_the_connection_and_keeps_what_arrived(start: Any, until: Any) -> None:
    with ChatService(["So far", Gate()]) as service:
        running = start(*to(service, "Hi"))
        running.wait_for("So far")
        running.interrupt()
        assert running.finish() == 130
        exchange = service.exchanges[0]
        until(lambda: exchange.disconnected_at is not None)
    assert running.output == b"So far\n"
    assert running.stderr.startswith("stopped\n")


def test_ctrl_c_before_the_first_token_leaves_too(start: Any, until: Any) -> None:
    with ChatService([Gate(), "late"]) as service:
        running = start(*to(service, "Hi"))
        until(lambda: service.exchanges)
        running.interrupt()
        assert running.finish() == 130
    assert running.output == b""


def test_ctrl_c_ends_a_wait_before_a_retry(start: Any) -> None:
    running = start(
        "ask", "-m", "echo/fail-throttled", "-o", "settings.script.retry_after=50", "Hi"
    )
    running.wait_for_error("attempt 2")
    running.interrupt()
    assert running.finish() == 130


def test_a_wait_of_less_than_a_second_is_shown_as_one_second(swink: Any) -> None:
    done = swink(
        "ask", "-m", "echo/fail-throttled", "-o", "settings.script.retry_after=0.2",
        "-o", "retry=false", "Hi",
    )  # fmt: skip
    assert done.returncode == 1
    assert "the provider asks to wait 1 s" in done.stderr


def test_a_closed_pipe_is_not_reported_as_a_failure(start: Any) -> None:
    gate = Gate()
    with ChatService(["first ", gate, "second ", "third"]) as service:
        running = start(*to(service, "Hi"))
        running.wait_for("first")
        running.process.stdout.close()
        gate.open()
        assert running.process.wait(30) == 141
    assert running.stderr == ""


@pytest.mark.skipif(not FULL.exists(), reason="this system has no file that is always full")
@pytest.mark.parametrize("command", ["ask", "events"])
def test_a_full_disk_is_reported_as_such(command: str, start: Any) -> None:
    running = start(command=redirected(f">{FULL}", command))
    assert running.process.wait(30) == 1
    assert running.stderr == "Error: The output cannot be written\nNo space left on device\n"


@pytest.mark.parametrize("command", ["ask", "events"])
def test_an_answer_lost_to_a_closed_output_is_reported(command: str, start: Any) -> None:
    running = start(command=redirected(">&-", command))
    assert running.process.wait(30) == 1
    assert running.stderr == "Error: The output cannot be written\nBad file descriptor\n"


def redirected(where: str, command: str) -> list[str]:
    line = shlex.join(swink_command(command, "-m", "echo/echo", "Hi"))
    return ["sh", "-c", f"{line} {where}"]


# -- events --------------------------------------------------------------------------------------


def test_events_are_lines_of_json_that_end_with_a_terminal(swink: Any) -> None:
    done = swink("events", "-m", "echo/think", "Hi")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert events[0] == {"type": "start"}
    assert {"type": "text_delta", "content_index": 1, "delta": "Hi"} in events
    assert [event["type"] for event in events].count("done") == 1
    assert events[-1]["type"] == "done"


def test_events_come_while_the_answer_is_under_way(start: Any) -> None:
    gate = Gate()
    with ChatService(["one", gate, "two"]) as service:
        running = start("events", *to(service, "Hi")[1:])
        running.wait_for('"delta": "one"}\n')
        gate.open()
        assert running.finish() == 0


def test_an_error_event_makes_the_exit_code(swink: Any) -> None:
    done = swink("events", "-m", "echo/fail-auth", "Hi")
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["type"], last["error_kind"], done.returncode) == ("error", "auth", 1)


def test_events_of_an_interrupted_answer_end_with_aborted(start: Any) -> None:
    with ChatService(["one", Gate()]) as service:
        running = start("events", *to(service, "Hi")[1:])
        running.wait_for('"delta": "one"}\n')
        running.interrupt()
        assert running.finish() == 130
    assert json.loads(running.output.splitlines()[-1])["stop_reason"] == "aborted"


# -- short forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "stdin", "said"),
    [
        (["Hi"], "", "Hi\n"),
        ([], "Send nothing", "Send nothing\n"),
        (["Hello there"], "", "Hello there\n"),
        (["-m", "echo/echo", "Hello"], "", "Hello\n"),
        (["--debug", "Hello there"], "", "Hello there\n"),
        (["summarise"], "Send nothing", "Send nothing\n\nsummarise\n"),
        (["help", "me"], "", "help me\n"),
    ],
    ids=[
        "a_word",
        "nothing_but_a_pipe",
        "words",
        "an_option",
        "after_a_flag",
        "behind_a_pipe",
        "for_help",
    ],
)
def test_a_question_needs_no_command(swink: Any, line: list[str], stdin: str, said: str) -> None:
    done = swink(*line, stdin=stdin, SWINK_MODEL="echo/echo")
    assert (done.returncode, done.stdout) == (0, said)


def test_a_misspelt_command_is_not_a_question(swink: Any) -> None:
    done = swink("modles", stdin="some text", SWINK_MODEL="echo/echo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean 'models'?" in done.stderr


@pytest.mark.parametrize("command", [[], ["models"], ["log"]], ids=str)
def test_help_is_a_word_too(swink: Any, command: list[str]) -> None:
    done = swink("help", *command)
    assert done.returncode == 0
    assert done.stdout == swink(*command, "--help").stdout


def test_the_version_has_a_short_option(swink: Any) -> None:
    assert swink("-V").stdout == swink("--version").stdout != ""


TOOLS = ["-y", "--functions", "def f(): ..."]

# options, how the answer ended, the exit code, what the last line says of that
ENDS: list[tuple[list[str], str, int, list[str]]] = [
    ([], "stop", 0, []),
    ([], "tool-use", 0, ["waiting for its tools"]),
    ([], "length", 3, ["truncated at the token limit"]),
    ([], "content-filter", 3, ["stopped by a content filter"]),
    ([], "pause", 3, ["paused by the provider: ask again to continue"]),
    (TOOLS, "stop", 0, []),
    (TOOLS, "length", 3, ["truncated at the token limit"]),
    (TOOLS, "content-filter", 3, ["stopped by a content filter"]),
]


@pytest.mark.parametrize(("given", "reason", "code", "said"), ENDS)
def test_a_truncated_answer_fails_with_the_reason(
    swink: Any, given: list[str], reason: str, code: int, said: list[str]
) -> None:
    done = swink("ask", "-m", f"echo/stop-{reason}", *given, "Hi")
    told = [why for *_, row in ENDS for why in row if done.stderr.endswith(f" · {why}\n")]
    assert (done.returncode, [*dict.fromkeys(told)]) == (code, said)


def test_an_inline_schema_is_used_unchanged(swink: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    with ChatService(["{}"]) as service:
        assert swink(*to(service, "--schema", json.dumps(schema), "Hi")).returncode == 0
        (body,) = service.requests
    assert body["response_format"]["json_schema"]["schema"]["properties"] == schema["properties"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_system_prompt_can_come_from_a_file(swink: Any, tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "role.txt"
    file.write_text("Be brief.\n", encoding)
    with ChatService(["Hi"]) as service:
        assert swink(*to(service, "-s", f"@{file}", "Hi")).returncode == 0
        (body,) = service.requests
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'

# what the file is called (none: it is piped in, without an option), its content, and the block
KINDS: list[tuple[str, str | None, bytes, str]] = [
    ("an image named .txt", "cat.txt", PIXEL, "image_url"),
    ("an image of another kind", "cat.jpg", PIXEL, "image_url"),
    ("a PDF of ASCII", "scan.pdf", PDF, "file"),
    ("a PDF without a suffix", "scan", PDF, "file"),
    ("a PDF piped in", None, PDF, "file"),
    ("an image piped in", None, PIXEL, "image_url"),
    ("text named .txt", "notes.txt", b"Sea", "text"),
    ("text without a suffix", "notes", b"Sea", "text"),
    ("a drawing in text", "drawing.svg", SVG, "text"),
]


@pytest.mark.parametrize(
    ("name", "data", "kind"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS]
)
def test_the_content_of_a_file_decides_before_its_name(
    swink: Any, tmp_path: Path, name: str | None, data: bytes, kind: str
) -> None:
    options = [] if name is None else ["-a", str(tmp_path / name)]
    if name is not None:
        (tmp_path / name).write_bytes(data)
    with ChatService(["Seen"]) as service:
        done = swink(*to(service, *options, "What?"), stdin=data if name is None else b"")
        assert done.returncode == 0, done.stderr
        block, question = service.requests[0]["messages"][-1]["content"]
    assert (block["type"], question) == (kind, {"type": "text", "text": "What?"})
    if kind == "image_url":
        assert block["image_url"]["url"].startswith("data:image/png;base64,")


def test_an_image_is_given_by_address_or_piped_in(swink: Any) -> None:
    link = "https://images.invalid/cat.png"
    with ChatService(["A cat"]) as service:
        assert swink(*to(service, "--image", link, "What?")).returncode == 0
        piped = swink(*to(service, "--attach", "-", "What?"), stdin=PIXEL)
        assert (piped.returncode, piped.stderr.startswith("Error")) == (0, False)
        linked, held = (
            body["messages"][-1]["content"][0]["image_url"] for body in service.requests
        )
    assert linked["url"] == link
    assert held["url"] == "data:image/png;base64," + base64.b64encode(PIXEL).decode()
