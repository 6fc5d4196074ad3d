"""`swink completion`: install shell completion for the Tab key."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
from attrs import define
from click.shell_completion import get_completion_class

from swink_cli.files import replace_file, user_path
from swink_cli.terminal import is_terminal, say, stdout
from swink_core import UsageError

__all__ = ["command"]

MARK = "# swink completion"
"""The comment that marks the lines that `--install` adds to a shell's startup file."""


@define(frozen=True)
class _Shell:
    """The files from which a shell loads completions.

    `script` is where the completion script is written; `startup` is the shell's startup file, to
    which `line` is added (`None`: the shell finds the script by itself).
    """

    script: Callable[[], Path]
    startup: Callable[[], Path] | None = None
    line: str = ""


def _data() -> Path:
    return user_path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")


def _config() -> Path:
    return user_path(os.environ.get("XDG_CONFIG_HOME") or "~/.config")


SHELLS = {
    "bash": _Shell(
        lambda: _data() / "swink" / "completion.bash",
        lambda: user_path("~/.bashrc"),
        "[ -r {script} ] && . {script}",
    ),
    "zsh": _Shell(
        lambda: _data() / "swink" / "completion.zsh",
        lambda: user_path(os.environ.get("ZDOTDIR") or "~") / ".zshrc",
        "(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}; "
        "[[ -r {script} ]] && source {script}",
    ),
    "fish": _Shell(lambda: _config() / "fish" / "completions" / "swink.fish"),
}


@click.command("completion")
@click.argument("shell", type=click.Choice([*SHELLS]), required=False)
@click.option("--install", is_flag=True, help="Install completion permanently.")
@click.option("--remove", is_flag=True, help="Remove the completion that --install added.")
def command(shell: str | None, install: bool, remove: bool) -> None:
    """Print a script that completes commands, models, templates, tools and files.

    Without the argument SHELL, the environment variable SHELL determines the shell. With --install,
    the script is written to a file. For bash and zsh, a line that loads the file is added to
    ~/.bashrc or ~/.zshrc; fish finds the file by itself. Run --install again after you upgrade
    swink.

    \b
      swink completion --install
      swink completion zsh > _swink
    """
    if install and remove:
        raise click.UsageError("--install and --remove exclude each other.")
    name = shell or _own_shell()
    if install:
        _install(name)
    elif remove:
        _remove(name)
    else:
        click.echo(_script(name))
        if is_terminal(stdout()):
            say(f"to install it permanently for {name}: swink completion {name} --install")


def _own_shell() -> str:
    """Return the user's shell. Raises UsageError for an unsupported shell."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise UsageError(
            f"unsupported shell: {name!r}" if name else "the variable SHELL is not set",
            resolution=f"Pass a shell: swink completion {'|'.join(SHELLS)}",
        )
    return name


def _script(shell: str) -> str:
    made = get_completion_class(shell)
    assert made is not None
    from swink_cli.main import cli

    return made(cli, {}, "swink", "_SWINK_COMPLETE").source()


def _install(name: str) -> None:
    shell = SHELLS[name]
    script = shell.script()
    startup = shell.startup and shell.startup()
    _write(script, _script(name).strip() + "\n")
    say(f"wrote {script}")
    if startup is not None:
        line = f"{shell.line.format(script=_quoted(script))}  {MARK}"
        kept = _lines_of_others(startup)
        _write(startup, "".join([*kept, *(["\n"] if _needs_end(kept) else []), line, "\n"]))
        say(f"added a line to {startup}")
    say(f"active in every new {name}; to use it now: exec {name}")


def _remove(name: str) -> None:
    shell = SHELLS[name]
    script = shell.script()
    startup = shell.startup and shell.startup()
    script.unlink(missing_ok=True)
    if startup is not None and startup.exists():
        kept = _lines_of_others(startup)
        _write(startup, "".join(kept))
    say(f"{name} will no longer complete swink, from its next start")


def _lines_of_others(file: Path) -> list[str]:
    """Return the lines of a shell's startup file that this command did not add."""
    try:
        text = file.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(MARK)]


def _needs_end(lines: list[str]) -> bool:
    return bool(lines) and not lines[-1].endswith("\n")


def _write(file: Path, text: str) -> None:
    """Write a file atomically, keeping its permissions; a symbolic link stays a link."""
    target = file.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, text.encode("utf-8", "surrogateescape"))
    target.chmod(mode)


def _quoted(path: Path) -> str:
    from shlex import quote

    return quote(str(path))
