"""Answers that are not the requested JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService

from swink_cli.schemas import misfit, schema_of

TREE = {
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    "$ref": "#/$defs/node",
}
NESTED = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/n"}},
    "$defs": {"n": {"type": "integer"}},
}
CLOSED = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
EITHER = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "null"}}]}

# an answer, what was asked for, part of what is said of it (None: it fits)
ANSWERS: list[tuple[str, Any, str | None]] = [
    ('{"a": 1}', "json", None),
    ("[1]", "json", None),
    ("Sorry, no.", "json", "invalid JSON: Expecting value"),
    ('```json\n{"a": 1}\n```', "json", "invalid JSON"),
    ("", "json", "invalid JSON"),
    ("[" * 100_000, "json", "invalid JSON"),
    ('{"city": "Oslo", "n": 2}', schema_of("city, n int"), None),
    ('{"city": "Oslo", "n": 2.0}', schema_of("city, n int"), None),
    ('{"city": "Oslo"}', schema_of("city, n int?"), None),
    ('{"city": "Oslo", "more": 1}', schema_of("city"), None),
    ("{}", schema_of("city"), "$ has no 'city'"),
    ("[]", schema_of("city"), "$ is no object"),
    ('{"n": "2"}', schema_of("n int"), "$.n is no integer"),
    ('{"n": 2.5}', schema_of("n int"), "$.n is no integer"),
    ('{"n": true}', schema_of("n float"), "$.n is no number"),
    ('{"n": 1}', schema_of("n bool"), "$.n is no boolean"),
    ('{"items": [{"n": 1}, {"n": null}]}', schema_of("[n int]"), "$.items[1].n is no integer"),
    ('{"n": [1, "x"]}', schema_of("n int[]"), "$.n[1] is no integer"),
    ('{"a": 1, "b": 2}', CLOSED, "$ has the unexpected field 'b'"),
    ('"red"', {"enum": ["red", "blue"]}, None),
    ('"green"', {"enum": ["red", "blue"]}, '$ is none of ["red", "blue"]'),
    ("2", {"const": 1}, "$ is none of [1]"),
    ("null", {"type": ["string", "null"]}, None),
    ("1", {"type": ["string", "null"]}, "$ is no string or null"),
    ("[null]", EITHER, None),
    ("[1]", EITHER, "$ matches none of the 2 alternatives"),
    ("1", {"allOf": [{}, {"type": "string"}]}, "$ is no string"),
    ('{"a": "x"}', NESTED, "$.a is no integer"),
    ('{"next": {"next": {}}}', TREE, None),
    ("1", {"type": [["x"]], "required": [{}], "properties": [], "anyOf": 3, "enum": {}}, None),
    ("{}", {"type": "objekt", "required": [[]], "items": 3}, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "asked", "said"), ANSWERS)
def test_a_mismatch_with_the_schema_is_explained(text: str, asked: Any, said: str | None) -> None:
    why = misfit(text, asked)
    assert why == said if said is None else said in str(why)


# options, the answer, what stdout has, the exit code, part of what is said
ASKED: list[tuple[list[str], str, int, str]] = [
    (["--schema", "city"], '{"city": "Oslo"}', 0, "openai/any"),
    (
        ["--schema", "city"],
        '{"town": "Oslo"}',
        3,
        "requested JSON of the schema\n$ has no",
    ),
    (["--schema", "city"], "I cannot say {", 3, "invalid JSON"),
    (["--schema", "{}"], "I cannot say {", 3, "invalid JSON"),
    (["--json"], "I cannot say {", 3, "Error: The answer is not the requested JSON"),
    (["-o", "response_format=json"], "No.", 3, "Error: The answer is not the requested JSON"),
    ([], "I cannot say {", 0, "openai/any"),
]


@pytest.mark.parametrize(("given", "answer", "code", "said"), ASKED)
def test_the_exit_code_says_that_an_answer_does_not_fit(
    swink: Any, given: list[str], answer: str, code: int, said: str
) -> None:
    with ChatService([answer]) as service:
        where = ("-m", "openai/any", "--base-url", service.base_url, "--api-key", "k")
        done = swink("ask", *where, *given, "Oslo?")
    assert (done.returncode, done.stdout) == (code, f"{answer}\n")
    assert said in done.stderr


COMMANDS = [["ask"], ["events"], ["chat"], ["record", "--force", "--output"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_exit_code_is_that_of_every_command_that_asks(
    swink: Any, tmp_path: Path, command: list[str]
) -> None:
    given = [*command, *[str(tmp_path / "kept")] * (command[0] == "record"), "--schema", "city"]
    with ChatService(['{"town": "Oslo"}'], ['{"city": "Oslo"}']) as service:
        where = ("-m", "openai/any", "--base-url", service.base_url, "--api-key", "k")
        misfit, fit = (swink(*given, *where, stdin="Oslo?") for _ in range(2))
    assert (misfit.returncode, fit.returncode) == (3, 0)
    assert "Error: The answer is not the requested JSON of the schema" in misfit.stderr
    assert '"town": "Oslo"' in misfit.stdout.replace("\\", "")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["events", "-m", "echo/stop-length"], 3),
        (["chat", "-m", "echo/stop-length"], 3),
        (["ask", "-m", "echo/echo", "-m", "echo/stop-length"], 3),
        (["ask", "-m", "echo/fail-auth", "-m", "echo/stop-length"], 1),
        (["chat", "-m", "echo/fail-auth,echo/echo", "-o", "retry=false"], 1),
    ],
)
def test_the_exit_code_of_several_answers_is_the_worst(
    swink: Any, command: list[str], code: int
) -> None:
    assert swink(*command, stdin="Oslo?").returncode == code


def test_code_that_is_extracted_is_what_has_to_fit(swink: Any) -> None:
    with ChatService(['Here:\n```json\n{"a": 1}\n```']) as service:
        where = ("-m", "openai/any", "--base-url", service.base_url, "--api-key", "k")
        done = swink("ask", *where, "--json", "-x", "Oslo?")
    assert (done.returncode, done.stdout) == (0, '{"a": 1}\n')


def test_of_several_answers_each_that_does_not_fit_is_named(swink: Any) -> None:
    with ChatService(["No."]) as service:
        given = ("--base-url", service.base_url, "--api-key", "k", "--schema", "city")
        done = swink("ask", "-m", "openai/any", "-m", "echo/echo", *given, "Oslo?")
    assert done.returncode == 3
    assert "The answer of openai/any is not the requested JSON of the schema" in done.stderr
    assert "The answer of echo/echo" not in done.stderr
