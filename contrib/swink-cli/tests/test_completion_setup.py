"""`swink completion`: a shell's script is printed, written where it is read, and taken out."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHELLS = ["bash", "zsh", "fish"]

STARTUP = {"bash": ".bashrc", "zsh": ".zshrc"}


@pytest.fixture
def home(swink_environment: dict[str, str]) -> Path:
    return Path(swink_environment["HOME"])


def scripts(home: Path) -> list[str]:
    """List the files that are there, without those of swink's own state."""
    return sorted(
        str(path.relative_to(home)) for path in home.rglob("*completion*") if path.is_file()
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shells_script_is_printed_and_nothing_written(swink: Any, home: Path, shell: str) -> None:
    if shutil.which(shell) is None and shell == "bash":
        pytest.skip("bash is not installed, whose version click looks at")
    done = swink("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_SWINK_COMPLETE={shell}_complete" in done.stdout
    assert scripts(home) == []


@pytest.mark.parametrize("shell", STARTUP)
@pytest.mark.parametrize("before", [None, "", "alias a=b\n", "alias a=b"])
def test_it_is_installed_once_and_removed_without_a_trace(
    swink: Any, home: Path, shell: str, before: str | None
) -> None:
    startup = home / STARTUP[shell]
    if before is not None:
        startup.write_text(before)
        startup.chmod(0o640)
    for _ in range(2):
        assert swink("completion", shell, "--install").returncode == 0
    lines = startup.read_text().splitlines()
    assert lines[:-1] == (before or "").splitlines()
    assert lines[-1].endswith("# swink completion")
    assert (home / ".local" / "share" / "swink" / f"completion.{shell}").exists()
    if before is not None:
        assert stat.S_IMODE(startup.stat().st_mode) == 0o640
    assert swink("completion", shell, "--remove").returncode == 0
    assert startup.read_text().rstrip("\n") == (before or "").rstrip("\n")
    assert scripts(home) == []


def test_a_startup_file_that_is_a_link_stays_one(swink: Any, home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.bashrc"
    kept.write_text("alias a=b\n")
    (home / ".bashrc").symlink_to(kept)
    assert swink("completion", "bash", "--install").returncode == 0
    assert (home / ".bashrc").is_symlink()
    assert "# swink completion" in kept.read_text()


def test_fish_finds_its_script_by_itself(swink: Any, home: Path) -> None:
    assert swink("completion", "fish", "--install").returncode == 0
    script = home / ".config" / "fish" / "completions" / "swink.fish"
    assert script.exists()
    assert swink("completion", "fish", "--remove").returncode == 0
    assert not script.exists()


@pytest.mark.parametrize(
    ("variable", "said"),
    [("/bin/tcsh", "unsupported shell: 'tcsh'"), ("", "the variable SHELL is not set")],
)
def test_an_unknown_shell_is_refused_with_the_known_ones(
    swink: Any, variable: str, said: str
) -> None:
    done = swink("completion", "--install", SHELL=variable)
    assert (done.returncode, said in done.stderr) == (2, True)
    assert "swink completion bash|zsh|fish" in done.stderr


def test_the_shell_is_the_users_own_unless_it_is_named(swink: Any) -> None:
    done = swink("completion", SHELL="/usr/bin/fish")
    assert "_SWINK_COMPLETE=fish_complete" in done.stdout


# what a new shell prints as the completion of `swink repl`
ASKED = {
    "bash": (
        ["bash", "-i", "-c"],
        'COMP_WORDS=(swink repl); COMP_CWORD=1; _swink_completion swink; echo "[${COMPREPLY[*]}]"',
    ),
    "zsh": (["zsh", "-i", "-c"], 'echo "[${_comps[swink]}]"'),
    "fish": (["fish", "-c"], "echo [(complete --do-complete 'swink repl' | string split \\t)[1]]"),
}

ANSWERS = {"bash": "[replay]", "zsh": "[_swink_completion]", "fish": "[replay]"}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_new_shell_completes_what_was_installed(
    swink: Any, swink_environment: dict[str, str], shell: str
) -> None:
    command = Path(sys.executable).with_name("swink")
    if shutil.which(shell) is None or not command.exists():
        pytest.skip(f"{shell}, or swink beside this interpreter, is not installed")
    assert swink("completion", shell, "--install").returncode == 0
    program, asked = ASKED[shell]
    path = f"{command.parent}:{swink_environment['PATH']}"
    done = subprocess.run(
        [*program, asked],
        env={**swink_environment, "PATH": path, "TERM": "dumb", "SWINK_PLUGINS": "echo"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ANSWERS[shell] in done.stdout.splitlines(), done.stdout + done.stderr
