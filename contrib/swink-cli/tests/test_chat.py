"""`swink chat`, from scripts and on a terminal."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from chat_service import CUT, ChatService, Gate, HTTPError
from screen import seen

KEY = "sk-canary-0123456789"
TERMINAL = (80, 24)
PROMPT = ">\x1b[0m "


def to(service: ChatService, *more: str) -> tuple[str, ...]:
    """The arguments for a chat with a service of the Chat Completions shape."""
    return ("chat", "-m", "openai/any", "--base-url", service.base_url, "--api-key", KEY, *more)


def turns(request: Any) -> list[tuple[str, Any]]:
    """Roles and contents of a request's messages."""
    return [(message["role"], message["content"]) for message in request["messages"]]


# -- scripts -------------------------------------------------------------------------------------


def test_a_script_gets_the_answers_and_nothing_else(swink: Any) -> None:
    done = swink("chat", "-m", "echo/echo", stdin="one\n\ntwo\n")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")
    assert "> " not in done.stderr


def test_each_turn_carries_the_conversation(swink: Any) -> None:
    with ChatService(["Blue."], ["Because."]) as service:
        swink(*to(service, "-s", "Be brief"), stdin="What colour?\nWhy?\n")
    assert turns(service.requests[1]) == [
        ("system", "Be brief"),
        ("user", "What colour?"),
        ("assistant", "Blue."),
        ("user", "Why?"),
    ]


LINES = [
    ("a line", "one\n", ["one"]),
    ("a line that goes on", "one\\\ntwo\n", ["one\ntwo"]),
    ("a backslash that is meant", "C:\\\\\nnext\n", ["C:\\\\", "next"]),
    ("a block", '"""\none\n\ntwo\n"""\nthree\n', ["one\n\ntwo", "three"]),
    ("a block within a line", '"""one"""\n', ["one"]),
    ("a block around text", '"""one\ntwo"""\n', ["one\ntwo"]),
    ("a block that the end closes", '"""\none\ntwo\n', ["one\ntwo"]),
    ("a line that goes on at the end", "one\\\n", ["one"]),
    ("no line's end", "one", ["one"]),
    ("a path is no command", "/etc/hosts has what?\n", ["/etc/hosts has what?"]),
    ("empty lines", "\n \n", []),
]


@pytest.mark.parametrize(
    ("stdin", "expected"), [row[1:] for row in LINES], ids=[row[0] for row in LINES]
)
def test_lines_become_turns(swink: Any, stdin: str, expected: list[str]) -> None:
    with ChatService(["ok"]) as service:
        swink(*to(service), stdin=stdin)
    assert len(service.requests) == len(expected)
    asked = turns(service.requests[-1]) if expected else []
    assert [content for role, content in asked if role == "user"] == expected


def test_a_script_knows_that_an_answer_failed_and_goes_on(swink: Any) -> None:
    with ChatService(HTTPError(400, "not like this"), ["Fine."]) as service:
        done = swink(*to(service), stdin="one\ntwo\n")
    assert (done.returncode, done.stdout) == (1, "Fine.\n")
    assert "not like this" in done.stderr


def test_ctrl_c_ends_a_script(start: Any) -> None:
    with ChatService(["So far", Gate()]) as service:
        running = start(*to(service), stdin="one\ntwo\n")
        running.wait_for("So far")
        running.interrupt()
        assert running.finish() == 130
    assert len(service.requests) == 1


# -- several models ------------------------------------------------------------------------------


def test_another_provider_goes_on_with_its_own_key_and_address(swink: Any) -> None:
    thinking = {"reasoning_content": "Let me see."}
    with ChatService([thinking, "Blue."]) as first, ChatService(["Because."]) as second:
        done = swink(
            *to(first, "--temperature", "0.5"),
            stdin="What colour?\n/model groq/other\nWhy?\n/model openai/any\nSure?\n",
            GROQ_BASE_URL=second.base_url,
            GROQ_API_KEY="gsk-canary-9876543210",
        )
    assert (done.returncode, done.stdout) == (0, "Blue.\nBecause.\nBlue.\n")
    assert turns(second.requests[0]) == [
        ("user", "What colour?"),
        ("assistant", "Blue."),
        ("user", "Why?"),
    ]
    assert second.requests[0]["temperature"] == 0.5
    assert second.exchanges[0].headers["authorization"] == "Bearer gsk-canary-9876543210"
    assert "Let me see." not in second.exchanges[0].body.decode()
    assert first.exchanges[1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in done.stderr + done.stdout


def test_the_stored_chat_contains_no_key_of_an_earlier_provider(
    swink: Any, swink_environment: dict[str, str]
) -> None:
    with ChatService([f"It is {KEY}."]) as first, ChatService(["Because."]) as second:
        done = swink(
            *to(first),
            stdin="Which key?\n/model groq/other\nWhy?\n",
            GROQ_BASE_URL=second.base_url,
            GROQ_API_KEY="gsk-canary-9876543210",
        )
    assert done.stdout == f"It is {KEY}.\nBecause.\n"
    state = Path(swink_environment["XDG_STATE_HOME"])
    stored = [path.read_bytes() for path in state.rglob("*") if path.is_file()]
    assert stored
    assert not any(KEY.encode() in data for data in stored)


def test_an_unknown_model_changes_nothing(swink: Any) -> None:
    done = swink("chat", "-m", "echo/echo", stdin="/model grok/x\nstill here\n/model\n")
    assert done.stdout == "still here\n"
    assert 'no provider "grok"' in done.stderr
    assert "model: echo/echo" in done.stderr


def test_a_key_goes_with_its_provider_wherever_it_stands_in_a_chain(swink: Any) -> None:
    with ChatService(["One."], ["Two."]) as service:
        done = swink(*to(service), stdin="Hi\n/model echo/fail-quota-exhausted openai/other\nHo\n")
    assert done.stdout == "One.\nTwo.\n"
    assert service.requests[1]["model"] == "other"
    assert service.exchanges[1].headers["authorization"] == f"Bearer {KEY}"


def test_an_invalid_option_is_refused_at_once(swink: Any) -> None:
    done = swink("chat", "-m", "echo/echo", "-o", "temperature=hot", stdin="Hi\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "temperature='hot': expected" in done.stderr


def test_a_chain_falls_back(swink: Any) -> None:
    done = swink(
        "chat", "-m", "echo/echo", stdin="/model echo/fail-quota-exhausted echo/echo\nHi\n"
    )
    assert (done.returncode, done.stdout) == (0, "Hi\n")


# -- failures ------------------------------------------------------------------------------------


def test_a_failed_turn_can_be_asked_again(swink: Any) -> None:
    with ChatService(["One."], HTTPError(400, "no"), ["Two."]) as service:
        done = swink(*to(service), stdin="first\nsecond\n/retry\n")
    assert done.stdout == "One.\nTwo.\n"
    assert "the conversation is kept: /retry sends the message again" in done.stderr
    assert turns(service.requests[2]) == turns(service.requests[1])


def test_a_part_of_an_answer_is_kept_until_it_is_asked_again(swink: Any) -> None:
    with ChatService(["Half", CUT], ["Whole."], ["Whole."]) as service:
        swink(*to(service), stdin="one\ntwo\n")
        assert turns(service.requests[1]) == [
            ("user", "one"),
            ("assistant", "Half"),
            ("user", "two"),
        ]
    with ChatService(["Half", CUT], ["Whole."]) as service:
        swink(*to(service), stdin="one\n/retry\n")
        assert turns(service.requests[1]) == [("user", "one")]


def test_a_question_without_an_answer_is_removed(swink: Any, tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with ChatService(["One."], HTTPError(400, "no images"), ["Two."]) as service:
        done = swink(
            *to(service), stdin=f"first\n/image {tmp_path / 'dot.png'}\nlook\n/undo\nsecond\n"
        )
    assert done.stdout == "One.\nTwo.\n"
    assert "taken back; 2 messages left" in done.stderr
    assert turns(service.requests[2]) == [
        ("user", "first"),
        ("assistant", "One."),
        ("user", "second"),
    ]


def test_retry_needs_a_question(swink: Any) -> None:
    done = swink("chat", "-m", "echo/echo", stdin="/retry\n")
    assert done.stderr.startswith("Error: Nothing to retry\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/sytem x", "no command /sytem; did you mean /system?"),
        ("/image", "no file given"),
        ("/image absent.png", "absent.png: No such file"),
        ("/load absent.json", "absent.json: No such file"),
        ("/save /no/such/folder/x", "/no/such/folder/x: No such file"),
        ("/save /", "/ exists"),
    ],
)
def test_a_mistake_is_named_and_the_chat_goes_on(swink: Any, line: str, expected: str) -> None:
    done = swink("chat", "-m", "echo/echo", stdin=f"{line}\nstill here\n")
    assert expected in done.stderr
    assert done.stdout == "still here\n"
    assert "Traceback" not in done.stderr


# -- commands ------------------------------------------------------------------------------------


def test_system_prompts_are_shown_set_and_removed(swink: Any) -> None:
    with ChatService(["ok"]) as service:
        done = swink(*to(service), stdin="/system\n/system Be kind\none\n/system -\ntwo\n")
    assert "system prompt: none" in done.stderr
    assert turns(service.requests[0])[0] == ("system", "Be kind")
    assert turns(service.requests[1])[0] == ("user", "one")


def test_an_attached_image_survives_its_file(swink: Any, tmp_path: Path) -> None:
    picture = tmp_path / "a dot.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    saved = tmp_path / "saved.json"
    with ChatService(["ok"]) as service:
        done = swink(*to(service), stdin=f"/image '{picture}'\nWhat is it?\n/save {saved}\n")
        picture.unlink()
        swink(*to(service, "--load", str(saved)), stdin="And now?\n")
    assert "image attached to your next message" in done.stderr
    first, words = service.requests[0]["messages"][0]["content"]
    assert first["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert words["text"] == "What is it?"
    assert service.requests[1]["messages"][0]["content"] == [first, words]
    assert service.requests[1]["messages"][-1]["content"] == "And now?"


def test_a_saved_conversation_goes_on_with_another_provider(swink: Any, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    swink("chat", "-m", "echo/think", "-s", "Be kind", stdin=f"one\n/save {saved}\n")
    with ChatService(["ok"]) as service:
        done = swink(*to(service), stdin=f"lost\n/load {saved}\ntwo\n")
    assert "loaded 2 messages" in done.stderr
    assert turns(service.requests[1]) == [
        ("system", "Be kind"),
        ("user", "one"),
        ("assistant", "one"),
        ("user", "two"),
    ]


def test_a_tool_of_the_command_line_replaces_the_saved_tool_of_its_name(
    swink: Any, tmp_path: Path
) -> None:
    saved, file = tmp_path / "saved.json", tmp_path / "tools.json"
    file.write_text('[{"name": "look"}, {"name": "go", "description": "old"}]')
    swink("chat", "-m", "echo/echo", "-T", str(file), stdin=f"one\n/save {saved}\n")
    file.write_text('{"name": "go", "description": "new"}')
    with ChatService(["ok"]) as service:
        done = swink(*to(service, "-T", str(file), "--load", str(saved)), stdin="two\n")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    tools = [tool["function"] for tool in service.requests[0]["tools"]]
    assert [(tool["name"], tool.get("description")) for tool in tools] == [
        ("look", None), ("go", "new"),
    ]  # fmt: skip


def test_a_corrupt_file_does_not_change_the_conversation(swink: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"messages": [{"role": "cook"}]}')
    with ChatService(["ok"]) as service:
        done = swink(*to(service), stdin=f"one\n/load {tmp_path / 'bad.json'}\ntwo\n")
    assert "unknown role 'cook'" in done.stderr
    assert turns(service.requests[1])[0] == ("user", "one")


def test_saving_overwrites_other_files_only_with_f(swink: Any, tmp_path: Path) -> None:
    other, own = tmp_path / "other.txt", tmp_path / "own.json"
    other.write_text("precious")
    done = swink(
        *("chat", "-m", "echo/echo"),
        stdin=f"one\n/save {other}\n/save {own}\ntwo\n/save {own}\n",
    )
    assert f"/save -f {other}" in done.stderr
    assert other.read_text() == "precious"
    assert len(json.loads(own.read_text())["messages"]) == 4
    swink("chat", "-m", "echo/echo", stdin=f"one\n/save -f {other}\n")
    assert len(json.loads(other.read_text())["messages"]) == 2


def test_help_names_every_command_and_quit_leaves(swink: Any) -> None:
    done = swink("chat", "-m", "echo/echo", stdin="/help\n/quit\nnever\n")
    for name in ("/model", "/system", "/image", "/attach", "/retry", "/save", "/load", "/quit"):
        assert name in done.stderr
    assert "save the conversation as JSON" in done.stderr
    assert done.stdout == ""


# -- on a terminal -------------------------------------------------------------------------------


def test_a_person_is_prompted_and_leaves_with_ctrl_d(start: Any, tmp_path: Path) -> None:
    running = start("chat", "-m", "echo/echo", size=TERMINAL)
    running.wait_for("Ctrl-D exits")
    running.wait_for(PROMPT)
    running.type("hello **there**\n")
    running.wait_for("tokens in")
    running.wait_for(PROMPT)
    running.type("\x04")
    assert running.finish() == 0
    lines = seen(running.output)
    assert "> hello **there**" in lines
    assert "hello there" in lines
    history = tmp_path / "state" / "swink" / "history"
    assert "hello **there**" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_ctrl_c_stops_an_answer_and_keeps_it(start: Any, tmp_path: Path, until: Any) -> None:
    saved = tmp_path / "saved.json"
    with ChatService(["So far", Gate()]) as service:
        running = start(*to(service, "--plain"), size=TERMINAL)
        running.wait_for(PROMPT)
        running.type("go\n")
        running.wait_for("So far")
        running.interrupt()
        running.wait_for("stopped")
        running.wait_for(PROMPT)
        until(lambda: service.exchanges[0].disconnected_at is not None)
        running.type(f"/save {saved}\n")
        running.wait_for("saved 2 messages")
        running.type("/quit\n")
        assert running.finish() == 0
    question, answer = json.loads(saved.read_text())["messages"]
    assert question["content"] == "go"
    assert answer["content"] == [{"type": "text", "text": "So far"}]
    assert answer["stop_reason"] == "aborted"


def test_ctrl_c_at_the_prompt_drops_the_line_only(start: Any, until: Any) -> None:
    running = start("chat", "-m", "echo/echo", size=TERMINAL)
    running.wait_for(PROMPT)
    running.type("half a li")
    running.wait_for("half a li")
    until(running.is_waiting)  # Python sees a signal at the prompt only while it waits for a key
    running.interrupt()
    running.wait_for("(Ctrl-D or /quit exits)")
    running.wait_for(PROMPT)
    running.type("whole\n")
    running.wait_for("1 token in")
    running.wait_for(PROMPT)
    running.type("/quit\n")
    assert running.finish() == 0


def test_lines_that_are_pasted_are_one_turn(start: Any) -> None:
    with ChatService(["ok"]) as service:
        running = start(*to(service), size=TERMINAL)
        running.wait_for(PROMPT)
        running.type("\x1b[200~one\n\ntwo\x1b[201~\n")
        running.wait_for("tokens in")
        running.wait_for(PROMPT)
        running.type("/quit\n")
        assert running.finish() == 0
    assert turns(service.requests[0]) == [("user", "one\n\ntwo")]


def test_the_tab_key_completes_commands_and_models(start: Any) -> None:
    running = start("chat", "-m", "echo/echo", size=TERMINAL)
    running.wait_for(PROMPT)
    running.type("/mod\techo/thi\t\n")
    running.wait_for("model: echo/think")
    running.type("/quit\n")
    assert running.finish() == 0


def test_the_history_comes_back(start: Any) -> None:
    for typed in ("remember me\n", "\x1b[A\n"):  # the second time: the key for the line before
        running = start("chat", "-m", "echo/echo", "--plain", size=TERMINAL)
        running.wait_for(PROMPT)
        running.type(typed)
        running.wait_for("2 tokens in")
        running.wait_for(PROMPT)
        running.type("\x04")
        assert running.finish() == 0
    assert seen(running.output).count("remember me") == 1


def test_there_is_no_last_answer_if_nothing_was_stored(start: Any, tmp_path: Path) -> None:
    running = start("chat", "-m", "echo/echo", "--plain", "--no-log", size=TERMINAL)
    running.wait_for(PROMPT)
    running.type("a secret\n")
    running.wait_for("2 tokens in")
    running.wait_for(PROMPT)
    running.type("\x04")
    assert running.finish() == 0
    assert [path for path in tmp_path.rglob("*") if path.name == "history"] == []


def test_a_history_that_cannot_be_kept_is_a_notice(start: Any, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    running = start("chat", "-m", "echo/echo", size=TERMINAL)
    running.wait_for(PROMPT)
    running.type("\x04")
    assert running.finish() == 0
    assert b"notice: the input history was not saved" in running.output
    assert b"Traceback" not in running.output
