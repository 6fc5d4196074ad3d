"""Templates: named options and prompts, each in a TOML file beside the settings.

    # templates/translate.toml
    model = "openai/gpt-5.4-mini"
    system = "You translate into $language."
    prompt = "Translate: $input"
    option = ["top_p=0.9"]

    [defaults]
    language = "French"

A key is the name of a command option without its dashes. `$input` is the question: piped text and
the prompt. Other variables come from `-p NAME=VALUE`, or have a default.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from string import Template as Text
from typing import Any

import click
from attrs import define, field
from click.core import ParameterSource
from click.shell_completion import CompletionItem

import swink_core as swink
from swink_cli.completion import offered
from swink_cli.files import private_folder, replace_file
from swink_cli.settings import settings_path
from swink_cli.terminal import say
from swink_recorder.scrub import HIDDEN, is_secret, scrub_url

__all__ = [
    "Template",
    "asked",
    "complete_template",
    "fill_template",
    "has_secret",
    "read_template",
    "save_template",
    "template_folder",
    "template_names",
    "template_options",
    "template_path",
    "without_credentials",
]

IN_USE = "swink_cli.template"
"""The key of click's `Context.meta` under which the template of a command line is stored."""

INPUT = "input"
ENDING = ".toml"

NEVER = frozenset({"api_key", "go_on", "id", "parameters", "save", "template", "yes"})
"""Options that templates must not contain, because they belong to a single call.

For example, `yes` would let a file allow tools to run without confirmation.
"""

EVERYWHERE = frozenset({"copy", "extract", "plain", "restart"})
"""Options that a template may contain although not every command has them."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


@define
class Template:
    """A prompt, options by the names of their parameters, and default values of variables."""

    name: str
    prompt: str = ""
    options: dict[str, Any] = field(factory=dict)
    variables: dict[str, str] = field(factory=dict)

    def filled(self, text: str, **more: str) -> str:
        """Replace the variables in a text. Raises UsageError for a variable without a value."""
        values = {**self.variables, **more}
        template = Text(text)
        if not template.is_valid():
            raise swink.UsageError(
                f"template {self.name}: a $ without a name",
                resolution="Write $$ for a dollar sign.",
            )
        missing = [name for name in template.get_identifiers() if name not in values]
        if missing:
            raise swink.UsageError(
                f"template {self.name} needs {', '.join(missing)}",
                resolution="Add: " + " ".join(f"-p {name}=VALUE" for name in missing),
            )
        return template.substitute(values)

    def asked(self, text: str) -> str:
        """Return the template's prompt with a question: inserted at `$input`, or else appended."""
        filled = self.filled(self.prompt, **{INPUT: text})
        has_place = INPUT in Text(self.prompt).get_identifiers()
        return filled if has_place else "\n\n".join(filter(None, (filled, text)))


def _use(context: click.Context, _: click.Parameter, name: str | None) -> None:
    """Use the options of the template `name` as defaults of the command line."""
    if name and not context.resilient_parsing:
        template = read_template(name, context.command)
        context.meta[IN_USE] = template
        context.default_map = {**(context.default_map or {}), **template.options}


def complete_template(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete template names."""
    return offered(start, template_names)


template_options = (
    click.option(
        "-t",
        "--template",
        metavar="NAME",
        is_eager=True,
        callback=_use,
        shell_complete=complete_template,
        help="Use the prompt and options of a template (`swink template`).",
    ),
    click.option(
        "-p",
        "--param",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a variable of the template.",
    ),
)


def fill_template(context: click.Context, given: dict[str, Any]) -> None:
    """Fill the options `given` from a template.

    Raises UsageError for an invalid variable, or if variables are given without a template.
    """
    del given["template"]
    pairs = given.pop("parameters")
    template: Template | None = context.meta.get(IN_USE)
    if template is None:
        if pairs:
            raise swink.InvalidOption(
                "-p gives a template's variable a value", resolution="Pass the template: -t NAME"
            )
        return
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise swink.InvalidOption(
                f"{pair!r} is not NAME=VALUE", resolution="For example: -p language=French"
            )
        template.variables[name] = value
    if context.get_parameter_source("system") is ParameterSource.DEFAULT_MAP:
        given["system"] = template.filled(given["system"])
    if context.get_parameter_source("models") is ParameterSource.ENVIRONMENT:
        given["models"] = template.options.get("models", given["models"])


def asked(text: str) -> str:
    """Return the question; if `-t` names a template, insert the question into its prompt."""
    context = click.get_current_context(silent=True)
    template: Template | None = context.meta.get(IN_USE) if context else None
    return text if template is None else template.asked(text)


def template_folder() -> Path:
    """Return the template folder, which may not exist."""
    return settings_path().parent / "templates"


def template_names() -> list[str]:
    """List the template names."""
    return sorted(path.stem for path in template_folder().glob(f"*{ENDING}"))


def template_path(name: str) -> Path:
    """Return the path of a template, which may not exist. Raises UsageError for an invalid name."""
    if not name or Path(name).name != name or name.startswith("."):
        raise swink.UsageError(
            f"invalid template name: {name!r}", resolution="Choose a name without a slash."
        )
    return template_folder() / f"{name}{ENDING}"


def read_template(name: str, command: click.Command) -> Template:
    """Read a template for a command. Raises UsageError if it is invalid."""
    path = template_path(name)
    try:
        said = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError as error:
        known = ", ".join(template_names()) or "none"
        raise swink.UsageError(
            f"unknown template {name!r}; templates: {known}",
            resolution=f"Create it with --save {name}, or write {path}",
        ) from error
    except (OSError, ValueError) as error:
        raise _wrong(path, str(getattr(error, "strerror", None) or error)) from error
    template = Template(name)
    parameters = _parameters(command)
    for key, value in said.items():
        if key == "prompt" and isinstance(value, str):
            template.prompt = value
        elif key == "defaults" and isinstance(value, dict):
            template.variables = {name: str(each) for name, each in value.items()}
        elif key in parameters:
            parameter = parameters[key]
            many = parameter.multiple and not isinstance(value, list)
            given = [value] if many else value
            if parameter.multiple and any(map(_is_secret, given)):
                raise _wrong(
                    path, "a template cannot contain a key; store it with `swink keys set`"
                )
            try:
                parameter.type_cast_value(click.Context(command), given)
            except click.BadParameter as error:
                raise _wrong(path, f"{key}: {error.message}") from error
            template.options[str(parameter.name)] = given
        elif key not in EVERYWHERE:
            raise _wrong(path, f"a template cannot contain the option {key!r}")
    return template


def save_template(name: str, prompt: Sequence[str], context: click.Context) -> Path:
    """Save the options and the prompt of a command line as a template, and return the file.

    Options that contain credentials are left out, and a notice names them.
    """
    import tomlkit

    path = template_path(name)
    said = tomlkit.document()
    left_out: list[str] = []
    for key, parameter in _parameters(context.command).items():
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
            value = context.params[str(parameter.name)]
            many = [str(one) for one in (value if isinstance(value, tuple) else [value])]
            kept = [one for one in many if not _holds_credentials(key, one)]
            left_out += [_named(key, one) for one in many if one not in kept]
            if kept:
                said[key] = kept if isinstance(value, tuple) else value
    if prompt:
        said["prompt"] = " ".join(prompt)
    if left_out:
        named = ", ".join(left_out)
        say(f"notice: a template contains no credentials, so it does not contain {named}")
    if not said:
        raise swink.UsageError(
            "the template would be empty", resolution="Pass options or a prompt with --save."
        )
    try:
        private_folder(path.parent)
        replace_file(path, tomlkit.dumps(said).encode())
    except OSError as error:
        raise swink.UsageError(
            f"{path}: {error.strerror or error}",
            title="Nothing was saved",
            resolution="Check that you can write to the folder.",
        ) from error
    return path


def _is_secret(value: Any) -> bool:
    """Return whether a value of `-o` contains a credential."""
    return str(value).partition("=")[0].strip() == "api_key"


def _holds_credentials(key: str, value: str) -> bool:
    """Return whether the value of an option contains credentials, by the names inside it.

    A schema only names properties, whatever their names. Any word of the command of an MCP server
    may name a credential, as in `--token`.
    """
    if key == "schema":
        return False
    if key == "mcp" and any(map(is_secret, value.split()[1:])):
        return True
    name, _, text = value.partition("=") if key == "option" else ("", "", value)
    try:
        parsed = text if name.startswith("headers.") else json.loads(text)
    except (ValueError, RecursionError):
        parsed = text
    return _is_secret(value) or has_secret(parsed, any(map(is_secret, name.split("."))))


def has_secret(value: Any, is_named: bool) -> bool:
    """Return whether a value contains a text whose name, or whose address, contains a secret.

    With `is_named`, the value's own name indicates a secret. Numbers, as in `max_tokens=100`, are
    not secret.
    """
    if isinstance(value, dict):
        return any(has_secret(each, is_named or is_secret(key)) for key, each in value.items())
    if isinstance(value, list):
        return any(has_secret(each, is_named) for each in value)
    return isinstance(value, str) and (is_named or without_credentials(value) != value)


def without_credentials(text: str) -> str:
    """Hide the credentials in the addresses in a text."""

    def scrubbed(found: re.Match[str]) -> str:
        try:
            return scrub_url(found[0])
        except ValueError:  # it may only look like an address
            return HIDDEN if {"@", "?"}.intersection(found[0]) else found[0]

    return _ADDRESS.sub(scrubbed, text)


def _named(key: str, value: str) -> str:
    """Return an option of a command line without its value."""
    return f"-o {value.partition('=')[0]}" if key == "option" else f"--{key}"


def _parameters(command: click.Command) -> dict[str, click.Option]:
    """Return the options that a template may contain, by their long names."""
    return {
        option.removeprefix("--"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name not in NEVER
        for option in parameter.opts
        if option.startswith("--")
    }


def _wrong(path: Path, why: str) -> swink.UsageError:
    return swink.UsageError(
        f"{path}: {why}",
        title="The template cannot be read",
        resolution="Correct the file, or move it away; `swink template` lists the templates.",
    )
