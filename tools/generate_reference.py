"""Write the pages of docs/reference that come from the code: `generate_reference.py`, or `--check`.

Docstrings, fields and tables are the code's own; only headings and links are written here. A page
is a function that returns its text; `PAGES` names them all, also those that tools of their own
make, and a test compares each with its file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import api_pages
import author_pages
import command_line_page
import config_page
import failure_table
import generate_gateway
import generate_providers
import generate_takes
from reference_parts import (
    MARK,
    about,
    arguments,
    code,
    fields,
    joined,
    signature,
    table,
    words,
)

from swink_core.plugins import hookspecs
from swink_core.vocabulary import events
from swink_core.vocabulary import grammar as protocol
from swink_core.vocabulary import options as model
from swink_core.vocabulary.outcome import ErrorConstructors
from swink_testing import observers
from swink_testing.conformance import LEVELS, PROVIDER_CHECKS, Check, ProviderConformance
from swink_testing.conformance.live import LIVE_CHECKS, LIVE_LEVELS
from swink_testing.conformance.package import HOOKS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
OPTIONS = (model.StreamOptions, model.Timeouts, model.RetryPolicy, model.CacheStrategy)


def checks(listed: Sequence[Check[Any]]) -> str:
    """Tabulate checks, each with its level and what its docstring says."""
    rows = [
        (str(check.level), code(check.name), " ".join(about(check.function).split()))
        for check in listed
    ]
    return table(("level", "check", "what holds"), rows)


def levels(named: dict[int, str]) -> str:
    """List what levels mean."""
    return "Levels: " + ", ".join(f"{number} *{name}*" for number, name in named.items()) + "."


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
    plugin_levels = dict(observers.ObserverConformance.levels)
    return joined(
        "# The conformance kit",
        MARK,
        "[How to check a provider](../how-to/check-a-provider.md) says how to run it.",
        "## Providers",
        about(ProviderConformance),
        levels(LEVELS),
        checks(PROVIDER_CHECKS),
        "## Providers, live",
        "`swink check PROVIDER --live` asks the real API.",
        levels(LIVE_LEVELS),
        checks(LIVE_CHECKS),
        "## Observers",
        about(observers.ObserverConformance),
        levels(plugin_levels),
        checks(observers.OBSERVER_CHECKS),
        "## Wrappers",
        about(observers.WrapperConformance),
        levels(plugin_levels),
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
        "[Failures](failures.md) says what the kinds mean.",
        table(("constructor", "what it does"), makers),
    )


def options() -> str:
    """Return the page of options."""

    def sections() -> Iterator[str]:
        for kind in OPTIONS:
            yield f"## `{kind.__name__}`"
            yield about(kind)
            yield fields(kind)

    budgets = [(code(str(level)), str(most)) for level, most in model.THINKING_BUDGETS.items()]
    return joined(
        "# Options",
        MARK,
        *sections(),
        "## `Transport`",
        words(get_args(model.Transport)),
        "## `MalformedPolicy`",
        words(get_args(model.MalformedPolicy)),
        "## `ThinkingLevel`",
        about(model.ThinkingLevel),
        words(model.ThinkingLevel),
        "Tokens of reasoning, where a provider wants a number or a caller gives one:",
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
    "provider-toolbox.md": author_pages.toolbox,
    "providers.md": generate_providers.page,
    "recordings.md": author_pages.recordings,
    "swink.md": api_pages.swink_package,
    "usage-and-cost.md": api_pages.usage_and_cost,
    "what-each-provider-takes.md": generate_takes.page,
    "what-the-gateway-carries.md": generate_gateway.page,
}
"""The pages by their file's name."""


def main() -> None:
    """Write all pages, or with `--check` tell which are stale."""
    if sys.argv[1:] == ["--check"]:
        stale = [n for n, page in PAGES.items() if (FOLDER / n).read_text("utf-8") != page()]
        if stale:
            sys.exit(f"stale: {', '.join(stale)}; run make reference")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
