"""The first run: a terminal, no model, and words that are commands in other tools."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService
from screen import seen

from swink_cli.model_choice import provider_of_key
from swink_core import Host
from swink_core.providers import Catalog
from swink_test_helpers.installed import LINES_PROVIDER, install

TERMINAL = (100, 40)


def first_run(start: Any, typed: str) -> tuple[int, str]:
    """Answer the question for a model; return the exit code and what the screen shows."""
    running = start("ask", "Good morning", size=TERMINAL)
    running.wait_for("Choose one")
    running.type(f"{typed}\n")
    code = running.finish()
    return code, "\n".join(seen(running.output, TERMINAL[0]))


@pytest.mark.parametrize("has_key", [False, True])
def test_enter_at_the_first_prompt_downloads_nothing_and_buys_nothing(
    start: Any, swink_environment: dict[str, str], has_key: bool
) -> None:
    with ChatService(["bought"]) as service:
        swink_environment["OPENAI_BASE_URL"] = service.base_url
        if has_key:
            swink_environment["OPENAI_API_KEY"] = "sk-test"
        code, screen = first_run(start, "")
        assert service.requests == []
    assert code == 0
    assert ("key" in screen.partition("openai/")[2]) is has_key
    assert "paste a key" in screen
    answered = screen.partition("Choose one")[2]
    assert "download" not in answered
    assert "Good morning" in answered


def test_zero_at_the_first_prompt_asks_no_model(start: Any) -> None:
    code, screen = first_run(start, "0")
    assert code == 2
    assert "No model chosen" in screen


def test_without_echo_enter_asks_no_model(start: Any, swink_environment: dict[str, str]) -> None:
    swink_environment["SWINK_DISABLE_PLUGINS"] = "echo"
    swink_environment["OPENAI_API_KEY"] = "sk-test"
    with ChatService(["bought"]) as service:
        swink_environment["OPENAI_BASE_URL"] = service.base_url
        code, screen = first_run(start, "")
        assert service.requests == []
    assert code == 2
    assert "No model chosen" in screen


PRICES = """
[[providers]]
name = "shop"
title = "Shop Inc."
wire_format = "lines"
base_url = "http://shop.invalid"
api_key_env = ["SHOP_API_KEY"]
key_prefixes = ["shop-"]

[[rules]]
match = "gone"
retires = "2020-01-01"
"""

MODELS = [
    ("dear", 'prices = { input = 3.0, output = 15.0 }\ncapabilities = ["tools"]'),
    ("cheap", 'prices = { input = 0.5, output = 2.0 }\ncapabilities = ["tools"]'),
    ("guard", "prices = { input = 0.1, output = 0.1 }\ncapabilities = []"),
    ("gone", 'prices = { input = 0.2, output = 0.2 }\ncapabilities = ["tools"]'),
    (
        "old",
        'prices = { input = 0.3, output = 0.3 }\ncapabilities = ["tools"]\nstatus = "deprecated"',
    ),
]
"""The cheapest with tools that is neither retired nor deprecated is `cheap`."""


@pytest.fixture
def shop(swink_environment: dict[str, str], tmp_path: Path) -> None:
    """Install a provider with several prices."""
    rows = "".join(f'[[models]]\nid = "{id}"\nprovider = "shop"\n{row}\n' for id, row in MODELS)
    install(
        tmp_path / "site",
        "swink-provider-shop",
        {"swink.providers": {"shop": "shop_provider:LinesProvider"}},
        {"shop_provider/__init__.py": LINES_PROVIDER, "shop_provider/models.toml": PRICES + rows},
    )
    swink_environment["PYTHONPATH"] = str(tmp_path / "site")
    swink_environment["SWINK_PLUGINS"] = "echo,shop,openai"


@pytest.mark.usefixtures("shop")
def test_the_cheapest_sensible_model_is_offered_with_its_price(start: Any) -> None:
    running = start("Hi", size=TERMINAL, SHOP_API_KEY="shop-01234567")
    running.wait_for("Choose one")
    running.type("0\n")
    running.finish()
    line = next(line for line in seen(running.output, TERMINAL[0]) if "shop/" in line)
    assert line.split(None, 1)[1] == (
        "shop/cheap   $0.5 in, $2 out per million tokens; SHOP_API_KEY is set"
    )


# the key, what else is typed, and the provider that it is kept for
PASTED = [
    ("recognised", "shop-0123456789abcdef", [], "shop", "This is a key of Shop Inc."),
    ("asked for", "zz-0123456789abcdef", ["shop"], "shop", "Providers: openai, shop"),
    ("misspelt first", "zz-0123456789abcdef", ["shopp", "shop"], "shop", 'did you mean "shop"'),
]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("key", "more", "provider", "said"), [row[1:] for row in PASTED], ids=[row[0] for row in PASTED]
)
@pytest.mark.parametrize("keeps_default", [True, False])
def test_a_pasted_key_is_kept_unseen_and_its_cheapest_model_asked(
    start: Any,
    swink: Any,
    swink_environment: dict[str, str],
    key: str,
    more: list[str],
    provider: str,
    said: str,
    keeps_default: bool,
) -> None:
    running = start("ask", "Good morning", size=TERMINAL)
    running.wait_for("Choose one")
    running.type("1\n")
    running.wait_for("Key (hidden)")
    running.type(f"{key}\n")
    for name in more:
        running.wait_for("Provider of this key")
        running.type(f"{name}\n")
    running.wait_for("from now on")
    running.type("y\n" if keeps_default else "n\n")
    running.finish()
    screen = "\n".join(seen(running.output, TERMINAL[0]))
    assert said in screen
    assert "Asking shop/cheap: $0.5 in, $2 out per million tokens" in screen
    assert key not in screen
    kept = Path(swink_environment["HOME"]) / ".config" / "swink" / "keys.toml"
    assert kept.read_text() == f'[keys]\n{provider} = "{key}"\n'
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    default = swink("default").stdout
    assert ("shop/cheap" in default) is keeps_default
    for line in (["log", "list", "--json"], ["config"], ["keys"], ["providers", "shop"]):
        assert key not in swink(*line).stdout


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("pasted", ["", "two words", 'KEY="x"  y'])
@pytest.mark.parametrize("line", [["ask", "Hi"], []], ids=["ask", "alone"])
def test_an_invalid_key_is_not_stored_or_shown(
    start: Any, swink: Any, line: list[str], pasted: str
) -> None:
    running = start(*line, size=TERMINAL)
    running.wait_for("Choose one")
    running.type("1\n")
    running.wait_for("Key (hidden)")
    running.type(f"{pasted}\n")
    assert running.finish() == 2
    screen = "\n".join(seen(running.output, TERMINAL[0]))
    assert "Nothing was saved" in screen
    assert not pasted or pasted not in screen
    assert "no keys stored" in swink("keys").stdout


# the beginning of a key, and the provider whose keys alone begin so
CERTAIN = [
    ("sk-ant-api03-x", "anthropic"), ("sk-or-v1-x", "openrouter"), ("sk-proj-x", "openai"),
    ("gsk_x", "groq"), ("xai-x", "xai"), ("pplx-x", "perplexity"), ("hf_x", "huggingface"),
    ("nvapi-x", "nvidia"), ("csk-x", "cerebras"), ("AIzaSyx", "gemini"), ("sk-x", None),
    ("x", None),
]  # fmt: skip


@pytest.mark.parametrize(("key", "provider"), CERTAIN)
def test_a_provider_is_recognised_by_its_key_only_where_that_is_certain(
    key: str, provider: str | None
) -> None:
    host = Host(environ={})
    if provider is not None and provider not in host.provider_names():
        pytest.skip(f"{provider} is not installed")
    infos = [info for name in host.provider_names() if (info := Catalog(host).provider(name))]
    found = provider_of_key(key, infos)
    assert (found and found.name) == provider


def test_swink_alone_offers_what_there_is_where_nothing_is_set_up(start: Any) -> None:
    running = start(size=TERMINAL, SWINK_PLUGINS="echo")
    running.wait_for("Choose one")
    running.type("\n")
    assert running.finish() == 0
    assert b"To use it: swink -m echo/echo" in running.output


@pytest.mark.parametrize(
    "given", [{"OPENAI_API_KEY": "sk-0123456789"}, {"SWINK_MODEL": "echo/echo"}]
)
def test_swink_alone_is_the_help_text_where_something_is_set_up(
    start: Any, given: dict[str, str]
) -> None:
    running = start(size=TERMINAL, SWINK_PLUGINS="echo,openai", **given)
    running.finish()
    assert b"Commands:" in running.output
    assert b"Choose one" not in running.output


# -- words that are commands elsewhere ----------------------------------------------------------


# what is typed, and what its refusal says
ELSEWHERE = [
    (["copy"], "`swink ask --copy`"),
    (["install", "llm-gemini"], "pip installs"),
    (["login"], "`swink keys`"),
    (["pull", "llama3"], "'pull' is not a swink command"),
    (["modles"], "Did you mean 'models'?"),
]


@pytest.mark.parametrize(("words", "said"), ELSEWHERE, ids=[" ".join(row[0]) for row in ELSEWHERE])
def test_a_command_of_other_tools_is_not_sent_to_a_model(
    swink: Any, swink_environment: dict[str, str], words: list[str], said: str
) -> None:
    swink_environment["OPENAI_API_KEY"] = "sk-0123456789"
    with ChatService(["bought"]) as service:
        given = {"OPENAI_BASE_URL": service.base_url, "SWINK_MODEL": "openai/any"}
        done = swink(*words, **given)
        assert (done.returncode, service.requests) == (2, [])
        assert said in done.stderr
        assert f"swink ask -- {words[0]} …" in done.stderr
        assert swink("ask", "--", *words, **given).stdout == "bought\n"


@pytest.mark.parametrize(("answer", "code", "text"), [("y", 0, b"copy"), ("n", 2, b"not sent")])
def test_on_a_terminal_the_user_confirms_a_question(
    start: Any, answer: str, code: int, text: bytes
) -> None:
    running = start("copy", size=TERMINAL, SWINK_MODEL="echo/echo")
    running.wait_for("Send 'copy' to a model")
    running.type(f"{answer}\n")
    assert running.finish() == code
    assert text in running.output.rpartition(b"[y/N]")[2]


@pytest.mark.parametrize(
    "words",
    [["show", "me", "the", "sea"], ["run tests for me"], ["What?"], ["-m", "echo/echo", "copy"]],
)
def test_a_question_may_begin_with_such_a_word(swink: Any, words: list[str]) -> None:
    done = swink(*words, SWINK_MODEL="echo/echo")
    assert (done.returncode, done.stdout) == (
        0,
        f"{words[-1] if '-m' in words else ' '.join(words)}\n",
    )
