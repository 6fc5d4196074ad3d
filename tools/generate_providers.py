"""The page of `docs/reference` on the features of all providers, from the installed ones, and the
list of their names that `swink new` refuses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

from empty_cells import explained
from provider_rows import NOTHING, codes, credentials, framing, rows, sent, thinking, tool_calls
from reference_parts import MARK, table

from swink_core.providers import TUNING

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "contrib" / "swink-cli" / "src" / "swink_cli" / "known_providers.txt"

FEATURES = (
    "tools", "tool_choice", "images", "documents", "audio", "json", "structured_output", "stop",
    "file_ids", "extensions",
)  # fmt: skip
KNOBS = (*TUNING, "strict")


def has(names: Iterable[str], owned: Iterable[str]) -> list[str]:
    """Mark which names are owned."""
    return ["yes" if name in owned else NOTHING for name in names]


def page() -> str:
    """Return the whole page; nothing in the environment changes it."""
    with patch.dict(os.environ, clear=True):
        found = list(rows())
        calls = tool_calls(found)
        asked = {row.title: (*sent(row), framing(row), thinking(row)) for row in found}
    wires = sorted({row.wire for row in found})
    empty = [(name, r.name) for r in found for name in (*FEATURES, *KNOBS) if name not in r.takes]
    return f"""\
---
search:
  exclude: true  # the pages of the providers are found instead
---

# The features of all providers

{MARK}

The tables of this page have one row for each provider in swink's repository, and a second row for
a provider that also has the Responses API. Each provider also has [a page](../providers/index.md).
`swink providers` lists the installed providers and shows whether their API keys are set;
`swink models` lists the models.

## Base URLs and API keys

The options `base_url` and `api_key` override the environment variables in this table. *Models* is
the number of models in swink's catalogue; other models work too.

{table(
    ("provider", "service", "distribution", "wire format", "base URL",
     "variables for the base URL", "variables for the API key", "models"),
    ((row.title, row.info.title, row.distribution, row.wire,
      row.info.base_url or NOTHING, codes(row.info.base_url_env), credentials(row.info),
      str(len(row.models))) for row in found),
)}

## Requests and answers

*Path* is the part of the URL after the base URL, and *key* is the header with the API key. *Answer*
is the framing of a streamed answer; *whole* means that the provider supports
`transport="buffered"`, and *WebSocket* that it supports `transport="websocket"`. *Thinking* lists
the request fields that turn on reasoning.

{table(
    ("provider", "path", "key", "answer", "thinking"),
    ((row.title, *asked[row.title]) for row in found),
)}

## Features

A call that needs a missing feature fails with the error kind `unsupported` before a request is
sent. Some models support fewer features than the table shows for their provider.

{table(
    ("provider", *(f"`{name}`" for name in FEATURES)),
    ((row.title, *has(FEATURES, row.takes)) for row in found),
)}

## Sampling and other options

If a provider does not support an option, swink omits the option from the request and reports this
in a `Notice` event.

{table(
    ("provider", *(f"`{name}`" for name in KNOBS)),
    ((row.title, *has(KNOBS, row.takes)) for row in found),
)}

## Reasons for missing features

If a reason begins with *open*, the vendor's API has the feature, but swink does not support it yet.

{table(("feature", "providers", "reason"), explained(empty))}

## Settings

This table lists the keys of the option [`settings`](extra-and-settings.md) and their values (`*`:
any key); `swink providers NAME` lists them too. Other keys raise `UsageError`. Providers that are
not listed have no settings.

{table(
    ("provider", "setting", "values"),
    ((f"`{row.name}`", f"`{name}`", kind if isinstance(kind, str) else codes(kind))
     for row in found if row.wire == row.info.wire_format
     for name, kind in row.info.settings.items()),
)}

## Wire formats

*Providers* is the number of providers with a wire format. *Tool calls* shows whether the arguments
of tool calls arrive in pieces or whole in the bundled recordings (`-`: no recording contains a
tool call).

{table(
    ("wire format", "providers", "tool calls"),
    ((wire, str(len({r.name for r in found if r.wire == wire})), calls.get(wire, NOTHING))
     for wire in wires),
)}
"""  # fmt: skip


def names() -> str:
    """Return a line for each provider: its name and its distribution."""
    found = {row.name: row.distribution for row in rows()}
    return "".join(f"{name} {found[name]}\n" for name in sorted(found))
