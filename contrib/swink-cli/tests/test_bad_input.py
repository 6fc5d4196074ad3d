"""Mistakes of users: each is explained, with advice, before anything is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService

import swink_core as library
from swink_cli.terminal import SPELLED_HERE
from swink_testing.acme import acme_host
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

FILES = {
    "broken.json": '{"type": ',
    "list.json": "[1]",
    "nameless.json": '[{"description": "a tool without a name"}]',
    "text.md": "words",
    "fake.png": "not a picture",
    "data.unheard-of": "\0\1\2",
}

# name, arguments, what stderr says: title, then what is named, then what to do
TABLE: list[tuple[str, list[str], list[str]]] = [
    (
        "unknown provider",
        ["-m", "grok/x"],
        [
            "Unknown provider",
            'no provider "grok"; installed: ',
            'did you mean "groq"?',
            "swink providers",
            "swink doctor",
        ],
    ),
    (
        "unknown provider in a chain",
        ["-m", "echo/echo,nobody/x"],
        ["Unknown provider", 'no provider "nobody"'],
    ),
    ("a bare name misspelt", ["-m", "gpt-5.4-mni"], ["Did you mean gpt-5.4-mini or "]),
    ("model without provider", ["-m", "gpt"], ["Not a model name", "'gpt'", "provider/id"]),
    (
        "unknown option",
        ["-o", "temprature=1"],
        [
            "Invalid option",
            "'temprature'; did you mean 'temperature'?",
            "--option extra.temprature=",
        ],
    ),
    ("option without value", ["-o", "top_p"], ["'top_p' is not KEY=VALUE", "-o top_p=0.9"]),
    ("option of another type", ["-o", "temperature=hot"], ["temperature='hot': expected"]),
    ("option out of its range", ["--max-tokens", "0"], ["max_tokens=0: expected `int` >= 1"]),
    ("option of a fixed set", ["-o", "transport=owl"], ["transport='owl'", "one of: auto, sse"]),
    (
        "unknown part",
        ["-o", "timeouts.idel=1"],
        ["timeouts has no part 'idel'; did you mean 'idle'?", "Its parts are connect"],
    ),
    ("part of no number", ["-o", "timeouts.idle=x"], ["timeouts.idle='x': expected"]),
    ("negative limit", ["--timeout", "-1"], ["timeouts.total=-1.0: expected"]),
    ("whole that has parts", ["-o", "retry=3"], ["retry has parts", "-o retry.budget=30"]),
    (
        "retries after no kind of failure",
        ["-o", "retry.retries.overloadd=1"],
        ["retry.retries", "'overloadd'", "overloaded"],
    ),
    (
        "no retries and some",
        ["-o", "retry=false", "-o", "retry.base=1"],
        ["retry has both a value and parts: retry.base", "not both"],
    ),
    (
        "retries and none",
        ["-o", "retry.base=1", "-o", "retry=false"],
        ["retry has both a value and parts: retry.base", "not both"],
    ),
    (
        "a part that is none, and none at all",
        ["-o", "retry=false", "-o", "retry.attempts=3"],
        ["retry has both a value and parts: retry.attempts"],
    ),
    ("yes or no in words", ["-o", "rules=no"], ["rules='no': expected `bool`", "true, 0.5 or"]),
    ("a number for words", ["-o", "stop=3"], ["stop=3: expected", 'or ["a", "b"]']),
    (
        "a word for a list",
        ["-o", "retry.fall_back_on=overloaded"],
        ["retry.fall_back_on='overloaded': expected", 'or ["a", "b"]'],
    ),
    ("part of a whole", ["-o", "seed.x=1"], ["seed has no parts: seed.x"]),
    ("headers without a name", ["-o", "headers=x"], ["headers has parts", "headers.X-Team=a"]),
    ("unknown thinking level", ["--thinking", "hard"], ["off, minimal, low", "thinking='hard'"]),
    (
        "a negative number of tokens to think",
        ["--thinking", "-5"],
        ["invalid thinking='-5'", "0 or more"],
    ),
    ("an empty key", ["--api-key", ""], ["the API key is empty", "omit the option"]),
    ("an empty key among options", ["-o", "api_key="], ["the API key is empty"]),
    (
        "address without scheme",
        ["--base-url", "localhost"],
        ["base_url='localhost'", "begins with http"],
    ),
    ("JSON and a schema", ["--json", "--schema", "x"], ["--json and --schema exclude each other"]),
    (
        "a field twice",
        ["--schema", "a, b, a"],
        ["duplicate field 'a'", "different name"],
    ),
    ("schema that is absent", ["--schema", "no.json"], ["no.json: No such file", "Check that"]),
    ("schema that is no JSON", ["--schema", "broken.json"], ["broken.json is not JSON", "schema"]),
    ("schema that is a list", ["--schema", "list.json"], ["list.json holds a JSON array"]),
    ("tool without a name", ["--tool", "nameless.json"], ["nameless.json", "name, description"]),
    ("image that is absent", ["--image", "no.png"], ["Cannot read the file", "no.png: No such"]),
    ("image that is none", ["--image", "fake.png"], ["fake.png does not contain image/png data"]),
    ("image that is text", ["--image", "text.md"], ["text.md is not an image", "--attach"]),
    ("folder attached", ["--attach", "."], [": Is a directory"]),
    ("file of no kind", ["--attach", "data.unheard-of"], ["cannot detect the file type"]),
]


@pytest.mark.parametrize(
    ("arguments", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_a_mistake_is_named_and_nothing_is_sent(
    swink: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: list[str],
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    model = [] if "-m" in arguments else ["-m", "openai/any"]
    with ChatService(["never"]) as service:
        done = swink(
            *("ask", *model, *arguments, "Hi"),
            OPENAI_BASE_URL=service.base_url,
            OPENAI_API_KEY="sk-0123456789",
        )
    assert (done.returncode, done.stdout, service.requests) == (2, "", [])
    assert done.stderr.startswith("Error: ")
    for text in expected:
        assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_command_points_to_the_help(swink: Any) -> None:
    said = "No command was named: 'swink --help' lists them."
    for words, told in ((["--nonsense"], True), (["ask", "--nonsense"], False)):
        done = swink(*words)
        assert (done.returncode, said in done.stderr) == (2, told)
        assert re.search("No such option:? '?--nonsense", done.stderr)  # by click's version


ADDRESSES: list[tuple[str, list[str], dict[str, str], str]] = [
    ("of a variable", [], {"OPENAI_BASE_URL": "localhost:1"}, "Correct OPENAI_BASE_URL."),
    ("of the command line", ["--base-url", "http://a:b"], {"OPENAI_BASE_URL": "http://b"},
     "Correct the base URL that was passed or configured"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "environment", "told"), [row[1:] for row in ADDRESSES], ids=[r[0] for r in ADDRESSES]
)
def test_an_invalid_address_is_reported_with_its_source(
    swink: Any, given: list[str], environment: dict[str, str], told: str
) -> None:
    for more in ([], ["-y", "--functions", "def f():\n  'F.'"], ["-m", "echo/echo"]):
        done = swink(
            *("ask", "-m", "openai/any", *given, *more, "Hi"),
            OPENAI_API_KEY="sk-0123456789",
            **environment,
        )
        assert (done.returncode, told in done.stderr) == (1, True)


def test_whole_options_and_parts_may_stand_in_any_order(swink: Any) -> None:
    pairs = [("-o", 'settings={"script": {"reply": "a"}}'), ("-o", "settings.script.words=2")]
    for first, then in (pairs, reversed(pairs)):
        done = swink("ask", "-m", "echo/echo", *first, *then, "Hi")
        assert (done.returncode, done.stdout) == (0, "a a\n")


def test_an_image_that_may_not_be_read_is_named(swink: Any, tmp_path: Path) -> None:
    locked = tmp_path / "locked.png"
    locked.symlink_to(locked)  # not even root can read it
    done = swink("ask", "-m", "echo/echo", "--image", str(locked), "Hi")
    assert done.returncode == 2
    assert f"{locked}: Too many levels of symbolic links" in done.stderr


NOBODY = "~nobody-here/x"

# where a path is given that is in no home: arguments, standard input, environment
HOMELESS: list[tuple[str, list[str], str, dict[str, str]]] = [
    ("an image", ["ask", "--image", NOBODY, "Hi"], "", {}),
    ("a system prompt", ["ask", "-s", f"@{NOBODY}", "Hi"], "", {}),
    ("a schema", ["ask", "--schema", NOBODY, "Hi"], "", {}),
    ("functions", ["ask", "-y", "--functions", NOBODY, "Hi"], "", {}),
    ("a conversation", ["chat", "--load", NOBODY], "", {}),
    ("a conversation to save", ["chat"], f"/save {NOBODY}\n", {}),
    ("the configuration", ["ask", "Hi"], "", {"SWINK_CONFIG": NOBODY}),
    ("the record", ["ask", "Hi"], "", {"SWINK_RECORD": NOBODY}),
    ("the catalogue", ["ask", "Hi"], "", {"SWINK_MODELS": NOBODY}),
]


@pytest.mark.parametrize(
    ("arguments", "stdin", "environment"),
    [row[1:] for row in HOMELESS],
    ids=[r[0] for r in HOMELESS],
)
def test_the_home_of_an_unknown_user_is_named(
    swink: Any, arguments: list[str], stdin: str, environment: dict[str, str]
) -> None:
    command, *more = arguments
    done = swink(command, "-m", "echo/tool", *more, stdin=stdin, **environment)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert f"{NOBODY}: " in done.stderr
    assert "Unexpected failure" not in done.stderr


def test_without_a_prompt_it_says_so(swink: Any) -> None:
    done = swink("ask", "-m", "echo/echo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: Nothing to ask\n")


def test_binary_input_is_refused(swink: Any) -> None:
    done = swink("ask", "-m", "echo/echo", "Hi", stdin=b"\x89PNG\xff")
    assert done.returncode == 2
    assert "standard input is not UTF-8 text (byte 0)" in done.stderr
    assert "--image or --attach" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "No model given, and no API key is set."),
        ({"GROQ_API_KEY": "sk-0123456789"}, "for example: -m groq/openai/gpt-oss-20b"),
    ],
    ids=["no key", "a key"],
)
def test_without_a_model_and_a_terminal_one_error_has_three_remedies(
    swink: Any, given: dict[str, str], said: str
) -> None:
    done = swink("ask", "Hi", **given)
    assert (done.returncode, done.stdout) == (2, "")
    lines = [" ".join(line.split()) for line in done.stderr.splitlines()]
    assert said in lines[1]
    assert lines[2:5] == [
        "Store a key: swink keys set PROVIDER",
        "Or a local model: swink ask -m ollama/MODEL, with Ollama running",
        'Or try echo: swink ask -m echo/echo "Hello" (no key, no network)',
    ]
    assert done.stderr.count("Error:") == 1
    assert "sk-0123456789" not in done.stderr


# how to hear each of the library's words that SPELLED_HERE spells anew
SAID: dict[str, tuple[str, dict[str, Any]]] = {
    "or pass api_key=…": ("acme/large", {"base_url": "http://acme.invalid"}),
    "base_url=…": ("acme/large", {"api_key": "key-1234567"}),
    "timeouts=Timeouts(…)": ("echo/fail-timeout", {}),
    "Options in extra=": ("acme/large", {"base_url": "http://acme.invalid", "api_key": "k"}),
    "Raise max_output_chars": ("echo/echo", {"max_output_chars": 1}),
    "lower max_tokens": ("echo/echo", {"max_output_chars": 1}),
    "raise max_tokens": ("echo/fail-empty-response", {}),
    'malformed="skip"': ("acme/damaged", {"base_url": "http://acme.invalid", "api_key": "k"}),
    "rules=False": ("openai/gpt-5", {"stop": ["END"], "api_key": "key-1234567"}),
    "retired=True": ("openai/gpt-4", {"api_key": "key-1234567"}),
    "the log at DEBUG level": ("echo/fail-unknown", {}),
}


@pytest.mark.parametrize("python", SPELLED_HERE)
async def test_replaced_wording_occurs_in_the_library(python: str) -> None:
    model, options = SAID[python]
    host = acme_host() if model.startswith("acme") else None
    damaged = MemoryResponse([b"data: {\n\n"], headers={"Content-Type": "text/event-stream"})
    answer = damaged if model == "acme/damaged" else MemoryResponse.of_json({}, 400)
    http = MemoryHTTPClient(answer)
    async with library.Client(host=host, http=http, retry=library.RetryPolicy.none()) as client:
        with pytest.raises(library.StreamError) as caught:
            await client.complete(model, "Hi there", **options)
    assert python in str(caught.value)


def test_without_a_key_it_names_the_variable_and_the_option(swink: Any) -> None:
    done = swink("ask", "-m", "openai/any", "Hi")
    assert done.returncode == 1
    kept = "or store one: swink keys set openai, or pass --api-key KEY ("
    assert f"Set OPENAI_API_KEY, {kept}" in done.stderr
    assert done.stderr.startswith("Error: No credentials for OpenAI\n")
    assert "Set OPENAI_API_KEY" in done.stderr


def test_an_unknown_provider_names_the_distribution_to_install(swink: Any) -> None:
    done = swink("ask", "-m", "groq/any", "Hi", SWINK_DISABLE_PLUGINS="groq")
    assert done.returncode == 2
    assert "Install it with `pip install swink-provider-openai`" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["aks"], "No such command 'aks'. Did you mean 'ask'?"),
        (["ask", "--modle", "x"], "--model"),
        (["alias", "set", "quick", "echo/echo"], "swink alias NAME MODEL defines an alias"),
        (["ask", "-m", "echo/tool", "-T", "tools.py", "Hi"], "--functions tools.py"),
        (["models", "grokk"], 'did you mean "groq"?'),
        (["demo", "grok"], 'did you mean "groq"?'),
        (["chat", "-m", "nobody/x"], 'no provider "nobody"'),
        (["ask", "-m", "nobody/x", "Hi"], "swink-provider-NAME for most"),
        (["chat"], "No model chosen"),
        (["chat", "-m", "echo/echo", "--load", "absent.json"], "absent.json: No such file"),
        (["events", "-m", "echo/echo"], "Nothing to ask"),
        (["demo", "--speed", "0"], "not in the range"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_command_refuses_what_it_cannot_do(
    swink: Any, arguments: list[str], expected: str
) -> None:
    done = swink(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


CONVERSATIONS: list[tuple[str, Any, str]] = [
    ("not JSON", "{", "is not JSON"),
    ("a list", [], "holds a JSON array"),
    ("no messages", {}, "is not a saved conversation"),
    ("a message of no role", {"messages": [{"content": "x"}]}, "unknown role None"),
    (
        "a block of no kind",
        {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
        "unknown type 'smell'",
    ),
    (
        "a result without its call",
        {
            "messages": [
                {"role": "tool_result", "tool_call_id": "a", "tool_name": "f", "content": ""}
            ]
        },
        "answers tool call 'a', which no message before it makes",
    ),
    (
        "a file that has gone",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "file", "path": "/gone.png"}}],
                }
            ]
        },
        "/gone.png: No such file",
    ),
]


@pytest.mark.parametrize(
    ("content", "expected"),
    [row[1:] for row in CONVERSATIONS],
    ids=[row[0] for row in CONVERSATIONS],
)
def test_a_corrupt_conversation_is_refused_with_the_reason(
    swink: Any, tmp_path: Path, content: Any, expected: str
) -> None:
    file = tmp_path / "saved.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    done = swink("chat", "-m", "echo/echo", "--load", str(file), stdin="Hi\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_an_internal_error_is_one_line_and_a_traceback_only_with_debug(
    swink: Any, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import swink_core\n"
        "def broken(*_, **__): raise ZeroDivisionError('by zero')\n"
        "swink_core.Host.entries = broken\n"
    )
    plain = swink("models", PYTHONPATH=str(tmp_path))
    assert plain.returncode == 1
    assert plain.stderr.splitlines()[:2] == [
        "Error: Unexpected failure",
        "ZeroDivisionError: by zero",
    ]
    assert "swink --debug" in plain.stderr
    assert "Traceback" not in plain.stderr
    debug = swink("--debug", "models", PYTHONPATH=str(tmp_path))
    assert "Traceback" in debug.stderr


TYPED = "antropic"
"""Near to a name that exists: whoever owns a package of that name waits for it."""


@pytest.mark.parametrize(
    "line",
    [
        [TYPED],
        ["ask", "-m", f"{TYPED}/claude", "Hi"],
        ["ask", "-m", TYPED, "Hi"],
        ["ask", "-m", f"echo/echo,{TYPED}/claude", "Hi"],
        ["chat", "-m", f"{TYPED}/claude"],
        ["events", "-m", f"{TYPED}/claude", "Hi"],
        ["demo", TYPED],
        ["models", TYPED],
        ["providers", TYPED],
        ["plugins", TYPED],
        ["check", TYPED],
        ["record", "-m", f"{TYPED}/claude", "--output", "kept", "Hi"],
        ["replay", TYPED],
    ],
    ids=" ".join,
)
def test_no_advice_installs_a_name_from_user_input(swink: Any, line: list[str]) -> None:
    done = swink(*line, stdin="Hi\n" if line[0] == "chat" else "")  # a word after a pipe is asked

    assert done.returncode != 0
    assert TYPED in done.stderr or "No model chosen" in done.stderr  # a word may be a question
    assert not re.search(rf"\b(pip|uv|install)\b.*{TYPED}", done.stdout + done.stderr)


def test_a_name_in_the_environment_is_nothing_to_install_either(swink: Any) -> None:
    done = swink("ask", "Hi", SWINK_MODEL=f"{TYPED}/claude")

    assert TYPED in done.stderr
    assert not re.search(rf"\b(pip|uv|install)\b.*{TYPED}", done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["Acme!"], "invalid plugin name: 'Acme!'"), (["acme"], "Give --kind: sse, ndjson")],
)
def test_a_new_plugin_needs_its_kind(swink: Any, arguments: list[str], said: str) -> None:
    done = swink("new", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
