"""What `swink default` and `swink alias` keep, and what is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def file(swink_environment: dict[str, str]) -> Path:
    """Where a platform of this kind keeps it."""
    return Path(swink_environment["HOME"]) / ".config" / "swink" / "config.toml"


@pytest.fixture
def keep(file: Path) -> Any:
    def write(text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write


def test_a_default_is_kept_shown_asked_and_forgotten(swink: Any, file: Path) -> None:
    assert "no default" in swink("default").stdout
    assert swink("default", "echo/think", "echo/echo").returncode == 0
    assert swink("default").stdout == "echo/think echo/echo\n"
    assert swink("ask", "Hi").stdout == "Hi\n"
    assert "echo/think" in swink("ask", "Hi").stderr
    assert swink("ask", "Hi", SWINK_MODEL="echo/tool").stderr.startswith("tool call")
    assert swink("default", "--unset").returncode == 0
    done = swink("ask", "Hi")
    assert (done.returncode, "swink default PROVIDER/MODEL" in done.stderr) == (2, True)
    assert "default" not in file.read_text()


def test_a_short_name_stands_for_its_models(swink: Any, file: Path) -> None:
    assert swink("alias", "quick", "echo/fail-overloaded", "echo/echo").returncode == 0
    assert swink("alias", "other", "echo/think").returncode == 0
    assert swink("alias").stdout.split() == [
        *("other", "echo/think", "quick", "echo/fail-overloaded", "echo/echo")
    ]
    assert swink("alias", "quick").stdout == "echo/fail-overloaded echo/echo\n"
    done = swink("ask", "-m", "quick", "-o", "retry.budget=0", "Hi")
    assert (done.returncode, done.stdout) == (0, "Hi\n")
    assert swink("chat", stdin="/model other\nHi\n", SWINK_MODEL="quick").returncode == 0
    assert swink("alias", "quick", "--remove").returncode == 0
    assert "quick" not in file.read_text()
    assert swink("ask", "-m", "quick", "Hi").returncode == 2


def test_what_a_user_wrote_stays(swink: Any, file: Path, keep: Any) -> None:
    keep('# mine\n[aliases]  # short\na = "echo/echo" # the first\n')
    assert swink("alias", "b", "echo/think").returncode == 0
    text = file.read_text()
    assert "# mine" in text
    assert 'a = "echo/echo" # the first' in text
    assert swink("alias", "a").stdout == "echo/echo\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default = nothing", "line 1"),
        ("default = 3", "default is no model's name"),
        ("default = []", "default is no model's name"),
        ("[aliases]\nx = [1]", "aliases.x is no model's name"),
        ("colour = 'red'", "not 'colour'"),
        ("aliases = 3", "not 'aliases'"),
    ],
)
def test_a_file_that_is_wrong_is_named_and_left_alone(
    swink: Any, file: Path, keep: Any, text: str, said: str
) -> None:
    keep(text)
    for line in (["ask", "Hi"], ["default", "echo/echo"], ["alias", "a", "echo/echo"]):
        done = swink(*line)
        assert done.returncode == 2
        assert str(file) in done.stderr
        assert said in " ".join(done.stderr.split())
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["default", "nonsense"], "is not a model name"),
        (["default", "nobody/x"], "nobody"),
        (["alias", "a/b", "echo/echo"], "cannot be a short name"),
        (["alias", " a", "echo/echo"], "cannot be a short name"),
        (["alias", "a", "nonsense"], "is not a model name"),
        (["alias", "a"], "there is no short name 'a'"),
        (["alias", "a", "--remove"], "there is no short name 'a'"),
    ],
)
def test_what_could_not_be_asked_is_not_kept(
    swink: Any, file: Path, line: list[str], said: str
) -> None:
    done = swink(*line)
    assert (done.returncode, said in done.stderr) == (2, True)
    assert not file.exists()


def test_the_file_is_where_the_variable_says(swink: Any, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "else" / "where.toml"
    assert swink("default", "echo/echo", SWINK_CONFIG=str(other)).returncode == 0
    assert swink("ask", "Hi", SWINK_CONFIG=str(other)).stdout == "Hi\n"
    assert (other.exists(), file.exists()) == (True, False)
