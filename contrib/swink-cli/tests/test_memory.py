"""Stored calls and conversations: continuing them, and turning storage off."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService, HTTPError

KEY = "sk-canary-0123456789"


@pytest.fixture
def file(swink_environment: dict[str, str]) -> Path:
    """Where it is kept unless the user says otherwise."""
    return Path(swink_environment["XDG_STATE_HOME"]) / "swink" / "calls.sqlite"


def turns(request: Any) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in request["messages"]]


def conversations(swink: Any) -> list[Any]:
    listed: list[Any] = json.loads(swink("log", "conversations", "--json").stdout)
    return listed


def test_a_question_continues_the_last_or_any_conversation(swink: Any, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("The sky is green.")
    with ChatService(["Blue."], ["Because."], ["Red."], ["So."]) as service:
        given = ("--base-url", service.base_url, "--api-key", KEY)
        swink("ask", "-m", "openai/any", *given, "-s", "Be brief", "-a", str(note), "What colour?")
        assert swink("ask", "-c", *given, "Why?").stdout == "Because.\n"
        swink("ask", "-m", "openai/other", *given, "Which?")
        newest, oldest = conversations(swink)
        swink("ask", "--cid", oldest["id"][:6], *given, "Is it?")
    (_, system), (_, shown), *rest = turns(service.requests[3])
    assert (system, "The sky is green." in str(shown)) == ("Be brief", True)
    assert rest == [
        *(("assistant", "Blue."), ("user", "Why?"), ("assistant", "Because.")),
        ("user", "Is it?"),
    ]
    assert [request["model"] for request in service.requests] == ["any", "any", "other", "any"]
    assert (newest["title"], newest["messages"], oldest["messages"]) == ("Which?", 2, 4)


def test_a_conversation_is_shared_by_questions_and_chats(swink: Any) -> None:
    swink("ask", "-m", "echo/echo", "one")
    assert "2 messages so far" in swink("chat", "-c", stdin="two\nthree\n").stderr
    assert swink("ask", "-c", "-m", "echo/think", "four").stdout == "four\n"
    [kept] = conversations(swink)
    assert (kept["messages"], kept["models"]) == (8, ["echo/think"])
    calls = json.loads(swink("log", "list", "--json").stdout)
    assert [call["conversation"] for call in calls] == [kept["id"]] * 4
    assert [call["answer"] for call in calls] == ["four", "three", "two", "one"]


def test_a_failed_call_is_stored_without_a_conversation(swink: Any) -> None:
    with ChatService(HTTPError(400, "no")) as service:
        given = ("--base-url", service.base_url, "--api-key", KEY)
        assert swink("ask", "-m", "openai/any", *given, "Hi").returncode == 1
    assert conversations(swink) == []
    [call] = json.loads(swink("log", "list", "--json").stdout)
    assert call["outcome"] == "invalid_request"


def test_it_is_found_by_its_words_and_summed_up(swink: Any) -> None:
    for model, word in (("echo/echo", "sky"), ("echo/echo", "sea sky"), ("echo/think", "sand")):
        swink("ask", "-m", model, word)
    found = json.loads(swink("log", "search", "sky", "--json").stdout)
    assert [call["prompt"] for call in found] == ["sea sky", "sky"]
    assert len(swink("log").stdout.splitlines()) == 4
    rows = json.loads(swink("log", "costs", "--by", "model", "--json").stdout)
    assert [(row["model"], row["calls"], row["input"]) for row in rows] == [
        ("echo/echo", 2, 3), ("echo/think", 1, 1),
    ]  # fmt: skip
    table = swink("log", "costs", "--days", "7").stdout.splitlines()
    assert [line.split()[-1] for line in table] == ["COST", "$0", "$0", "$0"]
    assert table[-1].split()[:2] == ["total", "3"]


# -- private, and off ----------------------------------------------------------------------------


def test_the_file_is_private_and_contains_no_key(swink: Any, file: Path) -> None:
    with ChatService([f"It is {KEY}."]) as service:
        given = ("--base-url", service.base_url, "--api-key", KEY)
        swink("ask", "-m", "openai/any", *given, f"Is it {KEY}?")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert KEY.encode() not in file.read_bytes()
    assert conversations(swink)[0]["title"] == f"Is it {'*' * len(KEY)}?"
    assert swink("log", "path").stdout == f"{file}\n"


CALL = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": f'{{"type": "{KEY}"}}'}}


def test_the_key_is_hidden_in_the_arguments_of_tools(swink: Any, file: Path) -> None:
    with ChatService([{"tool_calls": [CALL]}]) as service:
        given = ("--base-url", service.base_url, "--api-key", KEY)
        swink("ask", "-m", "openai/any", *given, "Hi")
    [kept] = conversations(swink)
    with closing(sqlite3.connect(file)) as db:
        [(context,)] = db.execute("SELECT context FROM conversations")
    call = json.loads(context)["messages"][1]["content"][0]
    assert (kept["messages"], call["type"]) == (2, "tool_call")
    assert call["arguments"] == {"type": "*" * len(KEY)}


@pytest.mark.parametrize(
    "word", ["assistant", "content", "messages", "tool_call", "complete", "openai"]
)
def test_a_word_of_the_format_as_the_key_leaves_a_conversation_readable(
    word: str, swink: Any
) -> None:
    with ChatService(["Blue.", {"tool_calls": [CALL]}], ["Red."]) as service:
        given = ("--base-url", service.base_url, "--api-key", word)
        swink("ask", "-m", "openai/any", *given, "Which?")
        done = swink("ask", "-c", *given, "And?")
    assert (done.returncode, done.stdout) == (0, "Red.\n"), done.stderr
    assert turns(service.requests[1])[0] == ("user", "Which?")


def test_a_key_that_is_a_part_of_the_model_s_name_is_not_hidden(swink: Any) -> None:
    with ChatService(["Run it."], ["Do."]) as service:
        given = ("--base-url", service.base_url, "--api-key", "openai")
        swink("ask", "-m", "openai/any", *given, "How do I call openai?")
        swink("ask", "-c", *given, "And then?")
    assert turns(service.requests[1])[0] == ("user", "How do I call openai?")
    assert conversations(swink)[0]["title"] == "How do I call openai?"


@pytest.mark.parametrize("how", ["option", "setting", "environment"])
def test_nothing_is_stored_if_storing_is_off(
    how: str, swink: Any, file: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text("log = false\n" if how == "setting" else "")
    more = {"SWINK_CONFIG": str(settings), **({"SWINK_RECORD": "off"} if how[0] == "e" else {})}
    option = ["--no-log"] if how == "option" else []
    done = swink("ask", "-m", "echo/echo", *option, "Hi", **more)
    assert (done.returncode, done.stdout, file.exists()) == (0, "Hi\n", False)
    calls = tmp_path / "calls.db"
    swink("ask", "-m", "echo/echo", "--no-log", "Hi", SWINK_RECORD=str(calls))
    assert not calls.exists()
    assert swink("chat", "-m", "echo/echo", *option, stdin="Hi\n", **more).returncode == 0
    assert not file.exists()
    done = swink("ask", "-m", "echo/echo", "-c", "Hi", **more)
    assert (done.returncode, "No conversation to continue" in done.stderr) == (2, True)


def test_one_file_has_it_all_where_the_environment_names_one(swink: Any, tmp_path: Path) -> None:
    path = tmp_path / "all.db"
    swink("ask", "-m", "echo/echo", "Hi", SWINK_RECORD=str(path))
    assert swink("ask", "-c", "Ho", SWINK_RECORD=str(path)).returncode == 0
    with closing(sqlite3.connect(path)) as db:
        count = "SELECT (SELECT count(*) FROM calls), (SELECT count(*) FROM conversations)"
        assert db.execute(count).fetchone() == (2, 1)


def test_an_unwritable_file_does_not_prevent_the_answer(swink: Any, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no database " * 100)
    done = swink("ask", "-m", "echo/echo", "Hi")
    assert (done.returncode, done.stdout) == (0, "Hi\n")
    assert "the conversation was not stored" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_invalid_conversation_is_named(swink: Any) -> None:
    for id, said in (("nope", "begins with nope"), ("", "--cid is empty")):
        done = swink("ask", "-m", "echo/echo", "--cid", id, "Hi")
        assert (done.returncode, said in done.stderr) == (2, True)


def test_a_locked_or_damaged_file_does_not_prevent_the_answer(swink: Any, file: Path) -> None:
    swink("ask", "-m", "echo/echo", "Hi")
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE conversations SET context = '{'")
        db.execute("CREATE TRIGGER full BEFORE INSERT ON conversations BEGIN "
                   "SELECT RAISE(FAIL, 'database or disk is full'); END")  # fmt: skip
    done = swink("ask", "-m", "echo/echo", "Ho")
    assert (done.returncode, done.stdout) == (0, "Ho\n")
    assert "the conversation was not stored" in done.stderr
    assert "disk is full" in done.stderr
    done = swink("ask", "-c", "Ho")
    assert (done.returncode, done.stdout) == (2, "")
    assert "The conversation cannot be read" in done.stderr
