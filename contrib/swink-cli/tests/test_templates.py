"""Prompts and options under a name: made, filled, listed and taken away."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService

import swink_core as library
from swink_cli.commands.ask import command
from swink_cli.templates import Template, read_template, template_path


@pytest.fixture
def folder(swink_environment: dict[str, str]) -> Path:
    """Where a platform of this kind keeps them."""
    folder = Path(swink_environment["HOME"]) / ".config" / "swink" / "templates"
    folder.mkdir(parents=True)
    return folder


# name, the template's prompt, what is asked, the prompt
PROMPTS = [
    ("a place for what is asked", "Say: $input!", "Hi", "Say: Hi!"),
    ("no place", "Review this", "a + b", "Review this\n\na + b"),
    ("no message was sent", "A joke about $topic", "", "A joke about cats"),
    ("no prompt", "", "Hi", "Hi"),
    ("a value with a dollar", "Say: $input", "it is $5", "Say: it is $5"),
    ("a dollar", "It costs $$5. $input", "Why?", "It costs $5. Why?"),
]


@pytest.mark.parametrize(
    ("prompt", "asked", "expected"), [row[1:] for row in PROMPTS], ids=[row[0] for row in PROMPTS]
)
def test_a_prompt_is_filled(prompt: str, asked: str, expected: str) -> None:
    assert Template("t", prompt, variables={"topic": "cats"}).asked(asked) == expected


@pytest.mark.parametrize(
    ("prompt", "told"), [("$other", "needs other"), ("costs $5", r"a \$ without a name")]
)
def test_a_prompt_that_cannot_be_filled_is_refused(prompt: str, told: str) -> None:
    with pytest.raises(library.UsageError, match=told):
        Template("t", prompt).asked("Hi")


def test_a_template_provides_defaults_for_the_command_line(swink: Any, folder: Path) -> None:
    (folder / "tr.toml").write_text(
        'model = "openai/any"\nsystem = "Into $language"\nprompt = "Translate: $input"\n'
        'temperature = 0.5\noption = ["top_p=0.9"]\n[defaults]\nlanguage = "French"\n'
    )
    with ChatService(["ok"]) as service:
        given = {"OPENAI_BASE_URL": service.base_url, "OPENAI_API_KEY": "sk-0123456789"}
        swink("-t", "tr", "--temperature", "1", "Hi", SWINK_MODEL="echo/echo", **given)
        swink("chat", "-t", "tr", "-p", "language=German", stdin="one\n", **given)
        assert swink("ask", "-t", "tr", "-m", "echo/echo", "Hi").stdout == "Translate: Hi\n"
    one, two = service.requests
    assert (one["temperature"], one["top_p"], two["temperature"]) == (1.0, 0.9, 0.5)
    assert [[m["content"] for m in request["messages"]] for request in (one, two)] == [
        ["Into French", "Translate: Hi"], ["Into German", "Translate: one"],
    ]  # fmt: skip


def test_a_command_line_becomes_a_template(swink: Any, folder: Path) -> None:
    given = ("-m", "echo/echo", "-o", "top_p=0.9", "-x", "-y", "--api-key", "sk-0123456789")
    done = swink("ask", *given, "--save", "code", "See:\n$input")
    assert (done.returncode, done.stdout) == (0, "")
    text = (folder / "code.toml").read_text()
    assert "sk-" not in text
    assert "yes" not in text
    assert swink("template", "show", "code").stdout == text
    assert swink("template").stdout.startswith("code  ")
    assert swink("-t", "code", "```\n1\n```").stdout == "1\n"
    assert swink("template", "remove", "code").returncode == 0
    assert "no template" in swink("template").stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "unknown template 't'; templates: none"),
        ("prompt = ", "t.toml: "),
        ("colour = 1", "contain the option 'colour'"),
        ("yes = true", "contain the option 'yes'"),
        ("api-key = 'x'", "contain the option 'api-key'"),
        ("prompt = 1", "contain the option 'prompt'"),
    ],
)
def test_a_template_that_cannot_be_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, told: str
) -> None:
    monkeypatch.setenv("SWINK_CONFIG", str(folder.parent / "config.toml"))
    if text is not None:
        (folder / "t.toml").write_text(text)
    with pytest.raises(library.UsageError, match=re.escape(told)):
        read_template("t", command)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("temperature = 'hot'", "t.toml: temperature: 'hot' is not a valid float"),
        ("prompt = '$a'", "-p a=VALUE"),
    ],
)
def test_a_template_that_cannot_be_used_is_named(
    swink: Any, folder: Path, text: str, told: str
) -> None:
    (folder / "t.toml").write_text(text)
    done = swink("ask", "-m", "echo/echo", "-t", "t", "Hi")
    assert (done.returncode, done.stdout, told in done.stderr) == (2, "", True)


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a/b"])
def test_a_name_stays_in_its_folder(name: str) -> None:
    with pytest.raises(library.UsageError, match="invalid template name"):
        template_path(name)


def test_no_template_holds_a_key(swink: Any, folder: Path) -> None:
    (folder / "open.toml").write_text('option = ["top_p=1", "api_key=sk-1"]')
    done = swink("-t", "open", "-m", "echo/echo", "Hi")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a template cannot contain a key" in done.stderr


def test_options_with_credentials_are_not_saved_and_are_named(swink: Any, folder: Path) -> None:
    secret = "canary-0123456789"
    done = swink(
        "ask", "-m", "echo/echo", "--save", "kept", "Hi",
        "-o", "max_tokens=100", "-o", "headers.X-Team=blue",
        "-o", f"headers.Authorization=Bearer {secret}", "-o", "headers.X-Api-Key=123456789",
        "-o", f'extra={{"inner": {{"api_key": "{secret}"}}}}', "-o", f"api_key={secret}",
        "--base-url", f"https://me:{secret}@gateway.invalid/v1",
        "--mcp", "https://docs.invalid/mcp", "--mcp", f"https://docs.invalid/mcp?token={secret}",
        "--mcp", f"server --api-key {secret}", "--mcp", "server --folder /data",
        "--schema", '{"properties": {"token": {"type": "string"}}}',
    )  # fmt: skip
    assert done.returncode == 0
    assert secret not in done.stderr
    assert "-o headers.Authorization, -o headers.X-Api-Key, -o extra, -o api_key" in done.stderr
    assert "--base-url" in done.stderr
    assert "--mcp" in done.stderr
    assert tomllib.loads((folder / "kept.toml").read_text()) == {
        "model": ["echo/echo"],
        "option": ["max_tokens=100", "headers.X-Team=blue"],
        "mcp": ["https://docs.invalid/mcp", "server --folder /data"],
        "schema": '{"properties": {"token": {"type": "string"}}}',
        "prompt": "Hi",
    }
