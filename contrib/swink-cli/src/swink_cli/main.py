"""The `swink` command: a group whose commands are imported when they are called.

The table COMMANDS lists its commands; other distributions add theirs, see `extensions`. Nothing
heavy is imported here (no core, no rich, no plugin), so that `swink --version` and completion stay
fast. `main` handles every remaining exception: it prints a short message and returns an exit code.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import BufferedReader, TextIOWrapper
from typing import TYPE_CHECKING, Any

import click

from swink_cli.exits import EXIT_BROKEN_PIPE, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE
from swink_cli.extensions import (
    added_commands,
    describe_commands,
    distribution_of,
    load_command,
)
from swink_cli.terminal import HelpFormatter, fitted, is_terminal, printable, say, show_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS = {
    "ask": "Ask a model; the answer streams to standard output.",
    "chat": "Start a conversation with one model, or with several in turn.",
    "events": "Ask a model and print every event as a line of JSON.",
    "demo": "Watch every installed provider stream a recording: no key, no network.",
    "providers": "List installed providers and the variables they read.",
    "models": "List known models with their limits and prices.",
    "default": "Show or choose the default model.",
    "alias": "List or define aliases for models.",
    "keys": "Store API keys of providers.",
    "config": "Show or change settings.",
    "template": "List, show or edit templates.",
    "tools": "List the tools that models may call.",
    "log": "Show stored calls and conversations.",
    "last": "Show the last answer again: formatted, raw, or only its code.",
    "record": "Ask a model and record the answer, with the time of each network read.",
    "replay": "Replay a recording: no key, no network.",
    "plugins": "List all installed plugins.",
    "doctor": "Find problems in the configuration and in installed plugins.",
    "completion": "Install shell completion for bash, zsh and fish.",
    "new": "Create a plugin package whose tests pass before you write a line.",
}
"""The commands, in the order of the help text.

In its module, each command is the object `command`, unless JOINED lists it under another name.
"""

JOINED = {
    "alias": "names.alias",
    "default": "names.default",
    "last": "log.last",
    "record": "recordings.record",
    "replay": "recordings.replay",
}
"""Commands that share a module: for each, the module and the command's name in that module."""

INSTEAD = {
    "auth": "`swink keys` stores API keys of providers",
    "configure": "`swink config` shows the settings",
    "copy": "`swink ask --copy`, and /copy in a chat, copy an answer",
    "debug": "`swink --debug` comes before a command",
    "examples": "`swink --help` lists the commands",
    "history": "`swink log` lists the stored calls",
    "info": "`swink config` shows the settings",
    "install": "pip installs swink and its providers",
    "login": "`swink keys` stores API keys of providers",
    "logout": "`swink keys` stores API keys of providers",
    "man": "`swink --help` lists the commands",
    "manual": "`swink --help` lists the commands",
    "settings": "`swink config` shows the settings",
    "setup": "`swink config` shows the settings",
    "uninstall": "pip uninstalls swink and its providers",
    "update": "pip upgrades swink and its providers",
    "upgrade": "pip upgrades swink and its providers",
    "usage": "`swink log costs` sums up the cost of calls",
    "version": "`swink --version` shows it",
    "whoami": "`swink keys` lists the stored keys",
}
"""Commands of similar tools, and the counterpart in swink."""

OTHERS = frozenset((
    "add", "agent", "agents", "clear", "collections", "cost", "create", "delete",
    "download", "edit", "embed", "embed-models", "embed-multi", "exec", "exit", "export",
    "fragments", "generate", "get", "import", "init", "list", "ls", "mcp", "open", "prompt",
    "ps", "pull", "push", "query", "quit", "reset", "restart", "role", "roles", "run",
    "schemas", "search", "self-update", "serve", "server", "session", "sessions", "set",
    "show", "similar", "start", "stats", "status", "stop", "sync", "test", "token", "ui",
    "upload", "web",
))  # fmt: skip
"""Commands of similar tools without a counterpart in swink."""

ELSEWHERE = {"batch": "swink-batch", "check": "swink-testing", "gateway": "swink-gateway"}
"""Commands of other distributions, and the distribution that provides each."""


def _as_listed(name: str) -> str:
    """Return the listed name of a command; singular and plural are accepted."""
    names = (name, f"{name}s", f"{name}es", name.removesuffix("s"), name.removesuffix("es"))
    own = next((one for one in names if one in COMMANDS), None)
    return own or next((one for one in names if one in added_commands()), name)


class _LazyGroup(click.Group):
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse a command line, which may be incomplete if a shell completes it."""
        whole = not extra.get("resilient_parsing")
        return super().make_context(info_name, _as_command(args, whole), parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *(name for name in added_commands() if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = _as_listed(cmd_name)
        if cmd_name in COMMANDS:
            module, _, name = JOINED.get(cmd_name, f"{cmd_name}.command").partition(".")
            command: click.Command = getattr(import_module(f"swink_cli.commands.{module}"), name)
            return command
        points = added_commands().get(cmd_name)
        if points is None:
            return None
        try:
            return load_command(cmd_name, points)
        except Exception:
            if ctx.resilient_parsing:  # do not print errors while a person types
                return None
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            name = args[0]
            if name.startswith("-"):
                raise
            near = get_close_matches(name, [*self.list_commands(ctx), *ELSEWHERE], 1)
            if name in ELSEWHERE:
                advice = f"It is in a separate distribution: pip install {ELSEWHERE[name]}"
            elif near:
                advice = f"Did you mean {near[0]!r}? To ask a model: swink ask -- {name} …"
            else:
                advice = (
                    "`swink --help` lists the installed commands; other distributions add more."
                )
            raise click.UsageError(f"No such command {name!r}. {advice}", error.ctx) from error

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would treat a closed pipe as a failure
            _forget_output()
            return EXIT_BROKEN_PIPE
        except Exception as error:
            name = _as_listed(ctx.invoked_subcommand or "")
            if name not in COMMANDS and (points := added_commands().get(name)):
                error.add_note(f"`swink {name}` belongs to {distribution_of(points[0])}.")
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        if added := describe_commands(added_commands(), COMMANDS):
            with formatter.section("Commands of other distributions"):
                formatter.write_dl(added)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands without importing them."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS.get(name)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"swink {_version('swink_cli')} (swink-core {_version('swink_core')})")
        ctx.exit()


def _version(name: str) -> str:
    """Return a distribution's version, read from the metadata folder's name.

    Importing `importlib.metadata` would take longer than the rest of `swink --version`.
    """
    for folder in sys.path:
        with suppress(OSError):
            for entry in os.listdir(folder or "."):
                if entry.startswith(f"{name}-") and entry.endswith(".dist-info"):
                    return entry.removeprefix(f"{name}-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version(name)


def _choose_profile(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        from swink_cli.settings import PROFILE

        ctx.meta[PROFILE] = value


@click.group(
    "swink",
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try `swink demo` first: it needs no key and no network.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions and exit.",
)
@click.option(
    "--profile",
    metavar="NAME",
    expose_value=False,
    callback=_choose_profile,
    help="Use the settings and keys of the profile NAME (or set SWINK_PROFILE).",
)
@click.option("--debug", is_flag=True, help="Log to standard error and show tracebacks.")
def cli(debug: bool) -> None:
    """One streaming interface to every language-model provider."""
    import logging

    from swink_cli.troubles import TROUBLES, log_to_stderr

    if debug:
        log_to_stderr()
    else:  # without a logging handler, Python would print errors a second time
        logging.getLogger().addHandler(TROUBLES)


click.Context.formatter_class = HelpFormatter  # also for commands of other distributions


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code. Raises no exception."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if sys.stdout is None:  # closed by the parent process: writing fails and is reported
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", closefd=False)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # models sometimes produce lone surrogates
    try:
        if arguments or not _begun():
            code = cli.main(arguments, prog_name="swink", standalone_mode=False)
        else:
            code = 0
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return EXIT_BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        say("\nstopped")
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        _show_usage(error, arguments)
        return error.exit_code
    except Exception as error:
        return _explain(error, debug="--debug" in arguments[: _own_arguments(arguments)])
    return code if isinstance(code, int) else 0


def _begun() -> bool:
    """Offer a choice of models if `swink` is run without arguments before any setup.

    Returns whether the user chose a model; if not, the caller prints the help text. Raises
    UsageError if the pasted text cannot be a key.
    """
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout) and is_terminal(sys.stderr)):
        return False
    if os.environ.get("SWINK_MODEL"):
        return False
    from swink_cli.model_choice import choose_model, is_set_up
    from swink_core import InvalidModel, SwinkError

    try:
        if is_set_up():
            return False
    except SwinkError:  # commands that need the settings file will explain the error
        return False
    try:
        model = choose_model()
    except InvalidModel:  # nothing was chosen
        return False
    say(f'To use it: swink -m {model} "Why is the sky blue?"; swink --help lists the commands')
    return True


def _show_usage(error: click.ClickException, arguments: Sequence[str]) -> None:
    """Print a usage error as click does, but without line breaks inside words."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()  # it is the help itself
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        hint = f"Try '{context.command_path} --help' for help."
        if context.info_name == "ask" and "ask" not in arguments:
            hint += " No command was named: 'swink --help' lists them."
        click.echo(f"{context.get_usage()}\n{hint}\n", err=True)
    said = f"Error: {error.format_message()}"
    if isinstance(error, click.NoSuchOption) and error.option_name in _OWN_OPTIONS:
        said += f" Put it before the command: swink {error.option_name} …"
    click.echo(fitted(printable(said)), err=True)


def _as_command(arguments: list[str], whole: bool) -> list[str]:
    """Insert `ask` before a question.

    Words are a question unless the first one is a command or a misspelt command.

    If `whole` is true, `arguments` is a whole command line, and piped text without a command is a
    question, too. `help`, alone or before a command, shows help.
    """
    at = _own_arguments(arguments)
    if at >= len(arguments):
        asks = whole and not _WORDS.intersection(arguments) and _is_piped()
        return [*arguments, "ask"] if asks else arguments
    first, *rest = arguments[at:]
    if first in COMMANDS:
        return arguments
    if first.startswith("-"):
        is_question = first != "--"
    else:
        known = [*COMMANDS, *added_commands(), *ELSEWHERE]
        if first == "help" and len(rest) < 2 and _as_listed("".join(rest)) in ("", *known):
            return [*arguments[:at], *rest, "--help"]
        if is_question := _as_listed(first) not in known:
            from difflib import get_close_matches

            if whole:
                _check_is_question(arguments[at:])
            is_word = first.replace("-", "").isalnum() and first.islower()
            is_other = first in {*INSTEAD, *OTHERS}
            is_question = not is_word or is_other or not get_close_matches(first, known, 1)
    return [*arguments[:at], "ask", *arguments[at:]] if is_question else arguments


def _check_is_question(words: Sequence[str]) -> None:
    """If the first word is a command of other tools, ask before sending the words to a model.

    Raises click.UsageError if the user declines, or without a terminal.
    """
    first = words[0]
    named = [word for word in words if not word.startswith("-")]
    if first not in {*INSTEAD, *OTHERS} or len(named) > 2 or any(" " in word for word in named):
        return
    instead = INSTEAD.get(first)
    why = f"{first!r} is not a swink command" + (f": {instead}." if instead else ".")
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        say(why)
        if click.confirm(f"Send {' '.join(named)!r} to a model as a question?", err=True):
            return
        why = f"{' '.join(named)!r} was not sent to a model."
    raise click.UsageError(f"{why} To ask a model: swink ask -- {first} …")


def _is_piped() -> bool:
    """Return whether standard input is a pipe with data, after waiting for the first byte."""
    if not isinstance(sys.stdin, TextIOWrapper) or is_terminal(sys.stdin):
        return False
    buffer = sys.stdin.buffer
    return isinstance(buffer, BufferedReader) and bool(buffer.peek(1))


def _own_arguments(arguments: Sequence[str]) -> int:
    """Count the options of `swink` itself, which precede a command or a question."""
    at = 0
    while at < len(arguments) and arguments[at].partition("=")[0] in _OWN_OPTIONS:
        at += 2 if arguments[at] == "--profile" else 1
    return at


_WORDS = frozenset({"-h", "--help", "-V", "--version"})
_OWN_OPTIONS = frozenset({"--debug", "--profile"}) | _WORDS

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Error numbers of a standard output that cannot be written, for example because a disk is full."""


def _explain(error: Exception, debug: bool) -> int:
    from swink_core import SwinkError, UsageError

    if debug:
        import traceback

        message = len(traceback.format_exception_only(error))  # printed below
        lines = traceback.format_exception(error)[:-message]
        click.echo(printable("".join(lines)), err=True, nl=False)
    if isinstance(error, OSError) and error.filename is None and error.errno in _NO_ROOM:
        _forget_output()
        with suppress(OSError):  # stderr may be the one
            show_error("The output cannot be written", error.strerror or str(error))
        return EXIT_FAILURE
    if isinstance(error, OSError) and error.filename is not None:
        advice = (
            "Check that the path is valid, that the disk has room, and that you may read "
            "and write it."
        )
        show_error("A file cannot be used", f"{error.filename}: {error.strerror}", advice)
        return EXIT_FAILURE
    if isinstance(error, SwinkError):
        show_error(error.title, error.message, error.resolution)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE
    whose = getattr(error, "__notes__", [])
    report = "This is a bug: please report it with the output of `swink --debug …`."
    show_error(
        "Unexpected failure",
        f"{type(error).__name__}: {error}",
        " ".join([*whose, *([] if debug else [report])]),
    )
    return EXIT_FAILURE


def _forget_output() -> None:
    """Redirect stdout to the null device, so that the flush at the interpreter's exit succeeds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
