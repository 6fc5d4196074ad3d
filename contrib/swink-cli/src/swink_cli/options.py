"""Convert command-line options to the arguments of `Client.stream`.

Invalid options are reported here, or by the client, before anything is sent.
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
        help=f"The model; `A,B` is a fallback chain. Default: {MODEL_ENV} (separated by spaces), "
        "or the model set by `swink default`.",
    ),
    click.option("-s", "--system", metavar="TEXT|@FILE", help="The system prompt: text, or @FILE."),
    click.option("--temperature", type=float, help="Sampling temperature, from 0."),
    click.option("--max-tokens", type=int, help="Maximum number of output tokens."),
    click.option(
        "--thinking",
        metavar="LEVEL|TOKENS",
        help="Reasoning effort: off, minimal, low, medium, high, extra_high, or a token budget.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Request an answer in JSON."),
    click.option(
        "--schema",
        metavar="FIELDS|FILE|JSON",
        shell_complete=complete_file,
        help="Request JSON of a schema: 'name, age int', a file, or an inline JSON schema.",
    ),
    click.option(
        "-T",
        "--tool",
        "named_tools",
        multiple=True,
        metavar="NAME|FILE",
        shell_complete=complete_tool,
        help="Offer a plugin's tool (`swink tools`), or a tool defined in FILE (JSON), which is "
        "not run.",
    ),
    click.option("--base-url", metavar="URL", help="Base URL for the (first) provider."),
    click.option(
        "--api-key",
        metavar="KEY",
        help="API key; visible in the process list, so prefer the provider's environment variable.",
    ),
    click.option("--timeout", type=float, metavar="SECONDS", help="Maximum duration of the call."),
    click.option(
        "--max-cost",
        type=click.FloatRange(0),
        metavar="DOLLARS",
        help="Maximum cost: no request is sent that could exceed the rest.",
    ),
    click.option(
        "--max-total-tokens",
        type=click.IntRange(0),
        metavar="N",
        help="Maximum number of input and output tokens in total.",
    ),
    click.option(
        "--max-requests",
        type=click.IntRange(0),
        metavar="N",
        help="Maximum number of requests, including retries and fallbacks.",
    ),
)

_LIMITS = {"cost": "max_cost", "tokens": "max_total_tokens", "requests": "max_requests"}
"""The fields of `Limits`, and the options that set them."""

_PAIRS: dict[str, Any] = {
    "multiple": True,
    "metavar": "KEY=VALUE",
    "help": "Any other option: top_p=0.9, stop=END, timeouts.idle=60, headers.X-Team=a; "
    "retry=false turns retries off, retry.retries.overloaded=2 sets their number; "
    "settings.KEY=VALUE is a setting of the provider, extra.KEY=VALUE is added to the "
    "request.",
}


@define
class CallOptions:
    """The arguments of a call, apart from the conversation."""

    models: list[str]
    system: str | list[swink.Block] | None = None
    tools: list[swink.Tool] = field(factory=list)
    options: dict[str, Any] = field(factory=dict, repr=False)
    others: list[list[str]] = field(factory=list)
    """The further models that receive the same question, each as a fallback chain."""
    tool_names: list[str] = field(factory=list)
    """Names of the plugins' tools that models may call."""
    is_default: bool = False
    """Whether the models are the configured default."""
    is_default_system: bool = False
    """Whether the system prompt is the configured default."""
    limits: LimitGate | None = None
    """The shared limits of all calls of the command; `None` without limits."""

    def context(self, messages: list[swink.Message]) -> swink.Context:
        """Create a conversation from messages, with the given system prompt and tools."""
        return swink.Context(messages, self.system, self.tools)

    def go_on(self, found: tuple[swink.Context, list[str]] | None) -> list[swink.Message]:
        """Continue a conversation: return its messages, and use its models and system prompt.

        Models and a system prompt on the command line take precedence over those of the
        conversation.
        """
        if found is None:
            return []
        context, models = found
        if self.is_default:
            self.models = models
        if self.system is None or self.is_default_system:
            self.system = context.system_prompt
        return context.messages

    def limit(self, **limits: Any) -> None:
        """Add the limits given as options to `self.limits`.

        Raises InvalidOption for an invalid limit.
        """
        wanted = {name: value for name, value in limits.items() if value is not None}
        if not wanted:
            return
        earlier = self.limits.limits if self.limits is not None else swink.Limits()
        try:
            self.limits = LimitGate(evolve(earlier, **wanted))
        except ValueError as error:
            raise swink.InvalidOption(str(error), resolution="Correct the limit.") from error

    def options_for(self, models: list[str]) -> dict[str, Any]:
        """Return the options for calls of `models`.

        Options that apply only to the provider of the first model are omitted for other providers.
        """
        owner, provider = (chain[0].partition("/")[0] for chain in (self.models, models))
        kept = () if provider == owner else PERSONAL
        return {name: value for name, value in self.options.items() if name not in kept}

    def require_model(self, *, several: bool = False, runs_tools: bool = False) -> None:
        """Offer available models to the user if no model is given.

        `several` means that the command accepts several models, `runs_tools` that it runs tools.
        Raises InvalidOption if several models, or tools, are given but the command does not accept
        them. Raises InvalidModel, whose message lists the available models, if the user chooses
        none.
        """
        if self.others and not several:
            raise swink.InvalidOption(
                "several models were given",
                resolution="Pass one model, or a fallback chain: -m A,B",
            )
        if self.tool_names and not runs_tools:
            raise swink.InvalidOption(
                f"this command does not run tools: {', '.join(self.tool_names)}",
                resolution=(
                    "Use `swink ask` or `swink chat`, or define a tool in a file: --tool FILE"
                ),
            )
        if not self.models:
            from swink_cli.model_choice import choose_model

            self.models = [choose_model()]


def call_options(command: Function, *, without: str = "") -> Function:
    """Add the options of a call to a command, which receives them as one `CallOptions`.

    `without` is a short option that the command uses for another purpose.
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
    """Add options to a command; the help text lists them in the order of `decorators`."""
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
    if options.get("api_key") == "":  # an empty key would select the key in the environment
        raise swink.InvalidOption(
            "the API key is empty", resolution="Pass a key, or omit the option."
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
    """Return a reasoning level or a number of tokens. Raises InvalidOption for any other text."""
    if given.isdecimal():
        return int(given)
    levels = [level.value for level in swink.ThinkingLevel]
    if given not in levels:
        raise swink.InvalidOption(
            f"invalid thinking={given!r}",
            resolution=f"Use a level ({', '.join(levels)}) or a number of tokens, 0 or more.",
        )
    return given
