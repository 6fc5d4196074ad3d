"""`make changelog`: when it fails, fragments and change log are unchanged."""

from __future__ import annotations

import subprocess
from pathlib import Path

import changelog
import pytest

HEAD = "# Changelog\n\n<!-- releases -->\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README.md").write_text("how fragments look\n")
    (folder / "1.added.md").write_text("A door.\n")
    (tmp_path / "CHANGELOG.md").write_text(HEAD)
    for place in ("", "plugins/acme/", "contrib/acme/"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
    _become(tmp_path, "0.2.0")
    return tmp_path


def _become(root: Path, version: str, *places: str) -> None:
    for place in places or ("", "plugins/acme/", "contrib/acme/"):
        (root / place / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command line of towncrier, which does nothing here."""
    seen: list[list[str]] = []

    def ask(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        seen.append(command[3:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(changelog.subprocess, "run", ask)
    return seen


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("abc", "'abc' is no version: make changelog VERSION=0.2.0"),
        ("0.2.x", "'0.2.x' is no version: make changelog VERSION=0.2.0"),
        ("", "'' is no version: make changelog VERSION=0.2.0"),
        ("v0.2.0", "'v0.2.0' is written 0.2.0: make changelog VERSION=0.2.0"),
        ("0.2.0-rc1", "'0.2.0-rc1' is written 0.2.0rc1: make changelog VERSION=0.2.0rc1"),
    ],
)
def test_an_invalid_version_is_refused(
    root: Path,
    asked: list[list[str]],
    version: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert changelog.main([version], root) == 1
    assert capsys.readouterr().err == f"{said}\n"
    assert asked == []


@pytest.mark.parametrize(
    ("theirs", "version", "are"),
    [
        ("0.1.0", "0.2.0", "0.1.0, 0.2.0"),
        ("0.2.0", "0.0.9", "0.2.0"),
        ("0.2.0", "0.2.0+local", "0.2.0"),
        ("0.2.0", "1!0.2.0", "0.2.0"),
    ],
)
@pytest.mark.parametrize("place", ["", "plugins/acme/", "contrib/acme/"])
def test_a_version_that_some_distribution_has_not_is_refused(
    root: Path,
    asked: list[list[str]],
    place: str,
    theirs: str,
    version: str,
    are: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _become(root, theirs, place)
    assert changelog.main([version], root) == 1
    assert f"the distributions are {are}, not {version}: change" in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize("argument", ["0.2.0", "--draft"])
def test_a_release_without_fragments_gets_no_section(
    root: Path, asked: list[list[str]], argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "changelog.d" / "1.added.md").unlink()
    assert changelog.main([argument], root) == 1
    assert "changelog.d/ has no fragments" in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize(
    ("argument", "how"),
    [
        ("0.2.0", ["build", "--yes", "--version", "0.2.0"]),
        ("0.2.0rc1", ["build", "--yes", "--version", "0.2.0rc1"]),
        ("--draft", ["build", "--draft", "--version", "draft"]),
    ],
)
def test_a_complete_answer_ends_with_done(
    root: Path, asked: list[list[str]], argument: str, how: list[str]
) -> None:
    _become(root, argument)
    assert changelog.main([argument], root) == 0
    assert asked == [how]
