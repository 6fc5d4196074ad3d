"""From the command line's words to the arguments of `Client.stream`.

Everything that can be wrong about them is said here, or by the client, before anything is sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click
from attrs import define, evolve, field
from click.core import ParameterSource

import swink_core as swink
from swink_cli.clients import PERSONAL, chosen, default_options
from swink_cli.completion import complete_file, complete_model, complete_tool
from swink_cli.files import read_text, tools_of
from swink_cli.pairs import parse_pairs
from swink_cli.settings import MODEL_ENV, read_settings
from swink_cli.templates import fill_template, template_options
from swink_core.providers import LimitGate

__all__ = ["CallOptions", "Function", "apply_options", "call_options"]

Function: TypeAlias = Callable[..., Any]

_CALL_OPTIONS = (
    click.option(
        "-m",
        "--model",
        "models",
        multiple=True,
        envvar=MODEL_ENV,
        metavar="PROVIDER/MODEL",
        shell_complete=complete_model,
        help="The model; `A,B` falls back from one to the next. "
        f"Default: {MODEL_ENV}, separated by spaces, or what `swink default` keeps.",
    ),
    click.option(
        "-s", "--system", metavar="TEXT|@FILE", help="The system prompt, as it stands or in a file."
    ),
    click.option("--temperature", type=float, help="How freely to choose words, from 0."),
    click.option("--max-tokens", type=int, help="The most tokens to answer with."),
    click.option(
        "--thinking",
        metavar="LEVEL|TOKENS",
        help="How hard to think: off, minimal, low, medium, high, extra_high, or a budget.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Ask for an answer in JSON."),
    click.option(
        "--schema",
        metavar="FIELDS|FILE|JSON",
        shell_complete=complete_file,
        help="Ask for JSON of a schema: 'name, age int', a file, or a JSON schema as it stands.",
    ),
    click.option(
        "-T",
        "--tool",
        "named_tools",
        multiple=True,
        metavar="NAME|FILE",
        shell_complete=complete_tool,
        help="Offer a plugin's tool (`swink tools`), or one that FILE describes (JSON), for "
        "whose result nobody waits.",
    ),
    click.option("--base-url", metavar="URL", help="Another address of the (first) provider."),
    click.option(
        "--api-key",
        metavar="KEY",
        help="The key; others see it in the process list, so prefer the provider's variable.",
    ),
    click.option("--timeout", type=float, metavar="SECONDS", help="The most time for the call."),
    click.option(
        "--max-cost",
        type=click.FloatRange(0),
        metavar="DOLLARS",
        help="The most to spend: no request is sent that may cost more than is left.",
    ),
    click.option(
        "--max-total-tokens",
        type=click.IntRange(0),
        metavar="N",
        help="The most tokens of all prompts and answers together.",
    ),
    click.option(
        "--max-requests",
        type=click.IntRange(0),
        metavar="N",
        help="The most requests, with retries and fallbacks.",
    ),
)

_LIMITS = {"cost": "max_cost", "tokens": "max_total_tokens", "requests": "max_requests"}
"""The fields of `Limits`, and the options that set them."""

_PAIRS: dict[str, Any] = {
    "multiple": True,
    "metavar": "KEY=VALUE",
    "help": "Any other option: top_p=0.9, stop=END, timeouts.idle=60, headers.X-Team=a; "
    "retry=false makes the call once, retry.retries.overloaded=2 tries so often again; "
    "settings.KEY=VALUE is one of the provider's own settings, "
    "extra.KEY=VALUE goes into the request as it is.",
}


@define
class CallOptions:
    """What a call is made with, besides the conversation."""

    models: list[str]
    system: str | list[swink.Block] | None = None
    tools: list[swink.Tool] = field(factory=list)
    options: dict[str, Any] = field(factory=dict, repr=False)
    others: list[list[str]] = field(factory=list)
    """Models that are to answer, too, each a chain of its own."""
    tool_names: list[str] = field(factory=list)
    """Tools of plugins, which are to be carried out."""
    is_default: bool = False
    """Whether the models are those of calls that name none."""
    is_default_system: bool = False
    """Whether the system prompt is the configured one."""
    limits: LimitGate | None = None
    """The limits of all calls of the command together; `None` without limits."""

    def context(self, messages: list[swink.Message]) -> swink.Context:
        """Make a conversation of messages with the system prompt and tools given."""
        return swink.Context(messages, self.system, self.tools)

    def go_on(self, found: tuple[swink.Context, list[str]] | None) -> list[swink.Message]:
        """Go on with a conversation and its models, where no other ones were named."""
        if found is None:
            return []
        context, models = found
        if self.is_default:
            self.models = models
        if self.system is None or self.is_default_system:
            self.system = context.system_prompt
        return context.messages

    def limit(self, **limits: Any) -> None:
        """Set limits beside those there are; `None` for none. Raises InvalidOption."""
        wanted = {name: value for name, value in limits.items() if value is not None}
        if not wanted:
            return
        earlier = self.limits.limits if self.limits is not None else swink.Limits()
        try:
            self.limits = LimitGate(evolve(earlier, **wanted))
        except ValueError as error:
            raise swink.InvalidOption(str(error), resolution="Correct the limit.") from error

    def options_for(self, models: list[str]) -> dict[str, Any]:
        """Return the options of a call of other models, without what is the first provider's."""
        owner, provider = (chain[0].partition("/")[0] for chain in (self.models, models))
        kept = () if provider == owner else PERSONAL
        return {name: value for name, value in self.options.items() if name not in kept}

    def require_model(self, *, several: bool = False, runs_tools: bool = False) -> None:
        """Offer a person what this machine could ask, where no model is named.

        A command says whether it asks `several` at once, and carries out tools. Raises
        InvalidOption where it does not, and InvalidModel, which says what there is, where nobody is
        there to choose, or chose none.
        """
        if self.others and not several:
            raise swink.InvalidOption(
                "several models are named",
                resolution="Name one model, or a chain of them: -m A,B",
            )
        if self.tool_names and not runs_tools:
            raise swink.InvalidOption(
                f"no tool is carried out here: {', '.join(self.tool_names)}",
                resolution="`swink ask` and `swink chat` do; a file describes one: --tool FILE",
            )
        if not self.models:
            from swink_cli.model_choice import choose_model

            self.models = [choose_model()]


def call_options(command: Function, *, without: str = "") -> Function:
    """Give a command the options of a call; it gets them as one `CallOptions`.

    `without` is a short name that the command has for something else.
    """

    @functools.wraps(command)
    def with_options(**given: Any) -> Any:
        names = (
            "system", "temperature", "max_tokens", "thinking", "as_json", "schema",
            "named_tools", "base_url", "api_key", "timeout", "pairs",
        )  # fmt: skip
        context = click.get_current_context()
        fill_template(context, given)
        source = context.get_parameter_source("models")
        models = given.pop("models")
        is_default = source in (ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT)
        chains = [chosen(models)] if is_default else [chosen(one.split(",")) for one in models]
        limits = {name: given.pop(option) for name, option in _LIMITS.items()}
        call = _parse(**{name: given.pop(name) for name in names})
        call.limit(**limits)
        call.models, call.others, call.is_default = chains[0], chains[1:], is_default
        return command(call=call, **given)

    short = [name for name in ("-o", "--option") if name != without]
    pairs = click.option(*short, "pairs", **_PAIRS)
    return apply_options((*_CALL_OPTIONS, pairs, *template_options), with_options)


def apply_options(
    decorators: Sequence[Callable[[Function], Function]], command: Function
) -> Function:
    """Give a command options, in this order in its help."""
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def _parse(
    system: str | None,
    temperature: float | None,
    max_tokens: int | None,
    thinking: str | None,
    as_json: bool,
    schema: str | None,
    named_tools: Sequence[str],
    base_url: str | None,
    api_key: str | None,
    timeout: float | None,
    pairs: Sequence[str],
) -> CallOptions:
    if as_json and schema is not None:
        raise swink.InvalidOption("--json and --schema exclude each other", resolution="Give one.")
    plain = {
        "temperature": temperature,
        "max_tokens": max_tokens,
        "base_url": base_url,
        "api_key": api_key,
        "thinking": None if thinking is None else _thinking(thinking),
        "response_format": "json" if as_json else None,
    }
    options: dict[str, Any] = {n: value for n, value in plain.items() if value is not None}
    if schema is not None:
        from swink_cli.schemas import read_schema

        options["response_format"] = read_schema(schema)
    if timeout is not None:
        pairs = [*pairs, f"timeouts.total={timeout}"]
    settings = read_settings(begins=True)
    defaults = default_options(settings)
    options.update(
        parse_pairs(pairs, {n: value for n, value in defaults.items() if n not in options})
    )
    if options.get("api_key") == "":  # for which the environment's key would be taken
        raise swink.InvalidOption(
            "the API key is empty", resolution="Give one, or leave the option out."
        )
    is_default_system = system is None and settings.system is not None
    if is_default_system:
        system = settings.system
    if system is not None and system.startswith("@"):
        system = read_text(system[1:]).rstrip("\n")
    files = [
        name for name in named_tools if name.endswith((".json", ".py")) or Path(name).is_file()
    ]
    names = [name for name in named_tools if name not in files]
    return CallOptions(
        [],
        system,
        tools_of(files),
        options,
        tool_names=names,
        is_default_system=is_default_system,
    )


def _thinking(given: str) -> str | int:
    """Return a level or a number of tokens. Raises InvalidOption for what is neither."""
    if given.isdecimal():
        return int(given)
    levels = [level.value for level in swink.ThinkingLevel]
    if given not in levels:
        raise swink.InvalidOption(
            f"thinking={given!r} is neither a level nor a number of tokens",
            resolution=f"The levels are {', '.join(levels)}; of tokens there are 0 or more.",
        )
    return given
