"""`swink last` and the views of `swink log show`: an answer that was kept, shown again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from screen import seen

ANSWER = """Two *ways*:

```python
print("one")
```

and

~~~sh
echo two
~~~
"""

CODE = 'print("one")\n\necho two\n'

SIZE = (80, 30)


@pytest.fixture
def asked(swink: Any) -> str:
    """Ask for an answer with code, then for one that fails; return the id of the first call."""
    assert swink("ask", "-m", "echo/echo", ANSWER).returncode == 0
    assert swink("ask", "-m", "echo/fail-auth", "Who?").returncode == 1
    calls = json.loads(swink("log", "list", "--json").stdout)
    return str(calls[-1]["id"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["last"], ANSWER),
        (["last", "--raw"], ANSWER),
        (["last", "--code"], CODE),
        (["log", "show", "ID", "--raw"], ANSWER),
        (["log", "show", "ID", "-x"], CODE),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_answer_is_printed_as_it_came_or_its_code_alone(
    swink: Any, asked: str, line: list[str], expected: str
) -> None:
    done = swink(*(asked if word == "ID" else word for word in line))
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_as_json_it_is_the_entry_of_the_log(swink: Any, asked: str) -> None:
    entry = json.loads(swink("last", "--json").stdout)
    assert (entry["id"], entry["model"]) == (asked, "echo/echo")
    assert entry["answer"].strip() == ANSWER.strip()


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("options", "first"), [([], "Two ways:"), (["--raw"], "Two *ways*:"), (["-x"], 'print("one")')]
)
def test_on_a_terminal_it_is_formatted_unless_raw_or_code_is_wanted(
    start: Any, options: list[str], first: str
) -> None:
    running = start("last", *options, size=SIZE)
    assert running.finish() == 0
    assert seen(running.output, SIZE[0])[0] == first


REFUSED = [
    (["last", "--raw", "--code"], 2, "--raw and --code exclude each other"),
    (["log", "show", "--code", "--json"], 2, "--code and --json exclude each other"),
    (["log", "show", "--raw"], 1, "has no answer with text"),
]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(("line", "code", "said"), REFUSED, ids=[row[2] for row in REFUSED])
def test_an_unavailable_view_is_an_error_without_output(
    swink: Any, line: list[str], code: int, said: str
) -> None:
    done = swink(*line)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in " ".join(done.stderr.split())


def test_without_code_or_without_any_call_it_is_an_error(swink: Any) -> None:
    none = swink("last")
    assert (none.returncode, none.stdout) == (2, "")
    swink("ask", "-m", "echo/echo", "words alone")
    no_code = swink("last", "--code")
    assert (no_code.returncode, no_code.stdout) == (1, "")
    assert "has no code block" in no_code.stderr


def test_a_stored_answer_cannot_control_the_terminal(swink: Any, start: Any) -> None:
    swink("ask", "-m", "echo/echo", "a\x1b]0;title\x07b")
    for options in ([], ["--raw"]):
        running = start("last", *options, size=SIZE)
        running.finish()
        assert b"\x1b]0;" not in running.output
