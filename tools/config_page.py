"""The page of `docs/reference` on a gateway's TOML file, from the classes it is read into."""

from __future__ import annotations

from typing import Any

import attrs
from reference_parts import MARK, about, code, default_of, joined, table, written_type

from swink_core import Timeouts
from swink_gateway.policy.config.schema import (
    Config,
    Key,
    Price,
    RequestGuard,
    Route,
    Rule,
    Transforms,
    Upstream,
    When,
)
from swink_gateway.policy.limits import Store

ABOUT = """\
This page lists the tables and keys of the TOML file that `swink gateway --config FILE` reads and
`swink gateway --check FILE` validates. Every table and every key is optional unless it is marked
*required*. An unknown key is an error; the message contains its line and the most similar known
key. A value of the wrong type is an error too. Instead of a list with one value, you can write the
value itself.

In a string, `${NAME}` is replaced by the value of the environment variable NAME, and `$${` by `${`.
A variable that is not set is an error, and so is an empty variable in `[keys]` or in an `api_key`.
Error messages never contain the values of variables.

The keys of a table of options are the fields of [`StreamOptions`](options.md), except `timeouts`.
To set timeouts, use the table `time_limits` of a route, in which `false` disables a limit.

[A gateway for a team](../how-to/run-a-teams-gateway.md) contains examples."""

PATTERNS = """\
## Patterns

In a pattern of model names, `*` stands for any text. A pattern with a slash is compared with full
names, `provider/model`. A pattern without a slash is compared with aliases and with names of models
without a provider. So `claude-*` matches `claude-haiku-4-5` but not `claude_code/opus`, and
`groq/*` matches all models of Groq. A pattern matches a request if it matches the requested name,
the name for which the requested name is an alias, or the full name of the model."""

RELOADING = """\
## Reloading the file

The gateway reloads the file on SIGHUP, and when the file has changed: every second, it compares the
modification time and size of the file with those of the loaded file, and it reloads a changed file
when two checks in a row see the same time and size. Running requests continue with the old
configuration, and the next request uses the new one.

If the changed file has an error, the gateway keeps its current configuration. It reports the error
on standard error and in the log, and `swink_gateway_config_is_current` is 0 until the file is
corrected. The gateway also rejects a file without `[keys]` if the current configuration has keys,
or if other machines can connect. To run without keys, restart the gateway. Changes of `[store]` and
of command-line options also need a restart.

If a program writes the file slowly, with pauses of seconds, the gateway may load an incomplete
file, with only the keys and limits written so far. To prevent this, write a temporary file and
rename it: renaming replaces the file in one step. In a container, this works only if the folder of
the file is mounted, [not the file
itself](../how-to/deploy-the-gateway.md#examples-docker-systemd-kubernetes-haproxy).

If the file is valid, `swink gateway --check FILE` prints a summary and the model patterns of
`[keys]` that match no known name, and exits with status 0. Otherwise the command prints all errors
and exits with status 2. Run the command where the same environment variables are set and the same
providers are installed as for the gateway."""

SECTIONS: tuple[tuple[str, type], ...] = (
    ("The file", Config),
    ("`[routes.NAME]`", Route),
    ("A model of a tier", Upstream),
    ("`[routes.NAME.transforms]`", Transforms),
    ("`[routes.NAME.time_limits]`", Timeouts),
    ("`[[rules]]`", Rule),
    ("`when`", When),
    ("`[keys.NAME]`", Key),
    ('`[prices."PROVIDER/MODEL"]`', Price),
    ("`[guards.NAME]`", RequestGuard),
    ("`[store]`", Store),
)

TYPES = {
    "Amount": "number above 0",
    "Count": "whole number above 0",
    "Dollars": "number of at least 0",
    "Engine": "text",
    "Mapping[str, Key]": "tables by name",
    "Mapping[str, Price]": "tables by name",
    "Mapping[str, RequestGuard]": "tables by name",
    "Mapping[str, Route]": "tables by name",
    "Mapping[str, str]": "texts by name",
    "Options": "table of options",
    "Path": "text",
    "PositiveFloat": "number above 0, or `false`",
    "Settings": "table",
    "Store": "table",
    "Tag": "text",
    "Timeouts": "table",
    "Transforms": "table",
    "When": "table",
    "bool": "true or false",
    "str": "text",
    "tuple[Digest, ...]": "texts",
    "tuple[OptionName, ...]": "names of options",
    "tuple[Pattern, ...]": "regular expressions",
    "tuple[Rule, ...]": "tables",
    "tuple[Tag, ...]": "texts",
    "tuple[str, ...]": "texts",
    "tuple[tuple[Upstream, ...], ...]": "models, or lists of models",
}
"""Types in the words of TOML."""


def page() -> str:
    """Return the page."""
    sections = [joined(f"## {heading}", about(kind), _fields(kind)) for heading, kind in SECTIONS]
    return joined("# The gateway's file", MARK, ABOUT, *sections, PATTERNS, RELOADING)


def _fields(kind: type) -> str:
    rows = [
        (code(one.name), TYPES[written_type(kind, one.name).removesuffix(" | None")], _default(one))
        for one in attrs.fields(kind)
    ]
    return table(("key", "type", "default"), rows)


def _default(one: attrs.Attribute[Any]) -> str:
    if one.default is attrs.NOTHING:
        return "*required*"
    default = default_of(one)
    known = {"None": "", "()": "", "{}": "", "True": "`true`", "False": "`false`"}
    return known.get(default, "" if default.endswith("()") else code(default.replace("'", '"')))
