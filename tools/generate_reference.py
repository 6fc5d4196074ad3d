"""Write the pages of docs/reference that come from the code: `generate_reference.py`, or `--check`.

Docstrings, fields and tables come from the code; only headings and links are written here. A page
is a function that returns its text. `PAGES` lists all pages, including those of other tools, and a
test compares each with its file. The names that `swink new` refuses are written with them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import api_pages
import attrs
import author_pages
import command_line_page
import config_page
import failure_table
import generate_gateway
import generate_providers
import other_names_page
import provider_pages
from reference_parts import (
    ALIASES,
    MARK,
    about,
    arguments,
    code,
    default_of,
    fields,
    joined,
    signature,
    table,
    type_links,
    words,
)

from swink_core.plugins import hookspecs
from swink_core.providers import OPTIONS
from swink_core.vocabulary import events
from swink_core.vocabulary import grammar as protocol
from swink_core.vocabulary import options as model
from swink_core.vocabulary.outcome import ErrorConstructors
from swink_testing import observers
from swink_testing.conformance import PROVIDER_CHECKS, Check, ProviderConformance
from swink_testing.conformance.answers.streaming import HOOKS
from swink_testing.conformance.live import LIVE_CHECKS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
PROVIDERS = FOLDER.with_name("providers")
POLICIES = (model.Timeouts, model.RetryPolicy, model.CacheStrategy)


def checks(listed: Sequence[Check[Any]]) -> str:
    """Tabulate checks, each with its promise and what its docstring says."""
    rows = [
        (
            f'<a id="{check.name}"></a>{code(check.name)}',
            check.module.replace("_", " "),
            " ".join(about(check.function).split()),
        )
        for check in listed
    ]
    return table(("check", "about", "promise"), rows)


# -- pages ---------------------------------------------------------------------------------------


def hooks() -> str:
    """Return the page of hooks."""

    def sections() -> Iterator[str]:
        for name in HOOKS:
            hook = getattr(hookspecs, name)
            first = getattr(hook, f"{hookspecs.PROJECT}_spec")["firstresult"]
            yield f"## `{name}`"
            yield signature(name, hook)
            yield "The first result that is not `None` counts." if first else "All are called."
            yield about(hook)

    return joined("# Hooks", MARK, about(hookspecs), *sections())


def conformance() -> str:
    """Return the page of the conformance kit."""
    return joined(
        "# The conformance kit",
        MARK,
        "[Test a provider](../how-to/check-a-provider.md) explains how to run it.",
        "## Providers",
        about(ProviderConformance),
        checks(PROVIDER_CHECKS),
        "## Providers, live",
        "`swink check PROVIDER --live` calls the real API.",
        checks(LIVE_CHECKS),
        "## Observers",
        about(observers.ObserverConformance),
        checks(observers.OBSERVER_CHECKS),
        "## Wrappers",
        about(observers.WrapperConformance),
        checks(observers.WRAPPER_CHECKS),
    )


def event_classes() -> str:
    """Return the page of events."""
    rows = [
        (code(kind.type), " or ".join(rule.phases), rule.effect, rule.block)
        for kind, rule in protocol.RULES.items()
    ]

    def sections() -> Iterator[str]:
        for kind in protocol.RULES:
            yield f"### `{kind.__name__}`"
            yield about(kind)
            yield fields(kind)

    makers = [
        (code(f"Error.{name}({', '.join(arguments(maker))})"), about(maker).splitlines()[0])
        for name in sorted(vars(ErrorConstructors))
        if not name.startswith("_")
        for maker in (getattr(events.Error, name),)
    ]
    return joined(
        "# Events",
        MARK,
        about(protocol),
        table(("`type`", "phase", "effect", "block"), rows),
        "## Classes",
        about(events),
        *sections(),
        "## Errors by kind",
        "`Error` has a constructor for each kind of failure;\n"
        "[Failures](failures.md) explains the kinds.",
        table(("constructor", "what it does"), makers),
    )


def _option_rows() -> Iterator[Sequence[str]]:
    """Yield a line of the table for each option."""
    defaults = {each.name: default_of(each) for each in attrs.fields(model.StreamOptions)}
    for name, option in OPTIONS.items():
        default = defaults.get(name, "None")
        yield code(name), code(option.type), code(default), ", ".join(option.set_by), option.meaning


def _definition(module: str, name: str) -> str:
    """Return the section of a type alias or a typed dictionary, from the module's source."""
    body = ast.parse(inspect.getsource(import_module(module))).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef) and node.name == name:
            kind = getattr(import_module(module), name)
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            own = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            keys = words(key.id for key in own if isinstance(key, ast.Name))
            said = f"A typed dictionary with the keys of `{bases}`, and {keys}. [The table]"
            if bases == "TypedDict":
                said = f"A typed dictionary with the keys {keys}. [The table]"
            return joined(about(kind), f"{said}(options.md) explains them.", type_links(bases))
        target = getattr(node, "target", None)
        if isinstance(node, ast.AnnAssign) and isinstance(target, ast.Name) and target.id == name:
            assert node.value is not None
            written = ast.unparse(node.value)
            said = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                said = inspect.cleandoc(str(after.value.value))
            return joined(f"```text\n{name} = {written}\n```", type_links(written), said)
    raise LookupError(f"{module} defines no {name}")


def types() -> str:
    """Return the page of type aliases and typed dictionaries."""
    sections = (
        f"## `{name}`\n\n{_definition(module, name)}" for name, module in sorted(ALIASES.items())
    )
    return joined(
        "# Types",
        MARK,
        "The type aliases of signatures, and the typed dictionaries of keyword arguments.",
        *sections,
    )


def options() -> str:
    """Return the page of options."""

    def sections() -> Iterator[str]:
        yield "## `StreamOptions`"
        yield about(model.StreamOptions).partition("\n\nOptions:")[0]
        yield fields(model.StreamOptions)
        for kind in POLICIES:
            yield f"## `{kind.__name__}`"
            yield about(kind)
            yield fields(kind)

    budgets = [(code(str(level)), str(most)) for level, most in model.THINKING_BUDGETS.items()]
    return joined(
        "# Options",
        MARK,
        "Keyword arguments of `Client`, `stream`, `complete`, `run` and `gather`. *Set by*:\n"
        "`client` is `Client(…)`; `provider` is `Client(providers={…})`, for one provider;\n"
        '`model` is a model of a chain, as `("acme/large", {…})`; `call` is the call. Later\n'
        "ones override earlier ones, and `None` means the default. The table is also\n"
        "`swink_core.providers.OPTIONS`.",
        table(("option", "type", "default", "set by", "meaning"), _option_rows()),
        "If a provider does not support a sampling option, swink omits it, with a `Notice`. If it\n"
        "does not support an option that the answer depends on, the call fails as `unsupported`.\n"
        "[The page of each provider](../providers/index.md) lists its options.\n"
        "[Provider-specific parameters](extra-and-settings.md) explains `settings` and `extra`.",
        f"Types: {type_links(' '.join(option.type for option in OPTIONS.values()))}.",
        *sections(),
        "## `Transport`",
        words(get_args(model.Transport)),
        "## `MalformedPolicy`",
        words(get_args(model.MalformedPolicy)),
        "## `ThinkingLevel`",
        about(model.ThinkingLevel),
        words(model.ThinkingLevel),
        "The number of reasoning tokens for each level, for APIs that need a number:",
        table(("level", "tokens"), budgets),
    )


PAGES: dict[str, Callable[[], str]] = {
    "client.md": api_pages.client,
    "command-line.md": command_line_page.page,
    "conformance.md": conformance,
    "errors.md": api_pages.errors,
    "events.md": event_classes,
    "failures.md": failure_table.page,
    "gateway-toml.md": config_page.page,
    "hooks.md": hooks,
    "messages.md": api_pages.messages,
    "models-toml.md": author_pages.models_toml,
    "options.md": options,
    "other-names.md": other_names_page.page,
    "provider-toolbox.md": author_pages.toolbox,
    "providers.md": generate_providers.page,
    "recordings.md": author_pages.recordings,
    "swink.md": api_pages.swink_package,
    "types.md": types,
    "usage-and-cost.md": api_pages.usage_and_cost,
    "what-the-gateway-carries.md": generate_gateway.page,
}
"""The pages by their file's name."""


def texts() -> dict[Path, str]:
    """Return the text of every generated file."""
    providers = {PROVIDERS / name: text for name, text in provider_pages.pages().items()}
    pages = {FOLDER / name: page() for name, page in PAGES.items()}
    return pages | providers | {generate_providers.NAMES: generate_providers.names()}


def main() -> None:
    """Write all files, or with `--check` list those that are stale."""
    is_check = sys.argv[1:] == ["--check"]
    written = texts()
    stale = [
        file
        for file, text in written.items()
        if not file.exists() or file.read_text("utf-8") != text
    ]
    stale += [file for file in PROVIDERS.glob("*.md") if file not in written]
    if is_check and stale:
        sys.exit(f"stale: {', '.join(file.name for file in stale)}; run make reference")
    for file in () if is_check else stale:
        if file in written:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(written[file], "utf-8")
        else:
            file.unlink()


if __name__ == "__main__":
    main()
