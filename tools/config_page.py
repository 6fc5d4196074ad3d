"""Write docs/reference/gateway-toml.md from the classes that a gateway's file is read into."""

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
What `swink gateway --config FILE` reads, and `--check FILE` looks at. Every table and every key may
be left out unless it says *required*. A key that is not here is a fault, told with its line and the
nearest one that is; so is a value of another type. A list of one may be written as its one value.

`${NAME}` in a text is the environment's variable NAME, and `$${` is `${` itself. A variable that is
not set is a fault, and so is an empty one in `[keys]` and as an `api_key`. What it holds is in no
message.

A table of options has the names of [`StreamOptions`](options.md), but `timeouts`, which are a
route's `time_limits`, where `false` is none.

[A gateway for a team](../how-to/run-a-teams-gateway.md) has an example of all this."""

PATTERNS = """\
## Patterns

A pattern of a model's name has `*` for anything. One with a slash is for `provider/model`, one
without for other names: `claude-*` fits `claude-haiku-4-5` and not `claude_code/opus`, and `groq/*`
fits all of Groq's. A name fits as the client says it, as what it is an alias of, and in full."""

RELOADING = """\
## Reading it again

A file is read again on SIGHUP, and when it has changed and two looks, a second apart, see the same
time and size of it. What is under way goes on as it began; the next request is answered as the file
says then. A file with a fault changes nothing: it is told on standard error and in the log, and
`swink_gateway_config_is_current` is 0 until it is mended. So is a file that would let a gateway
beyond this machine answer without a key, and one without `[keys]` where keys were wanted: that
takes a start. `[store]`, and what the command line says, hold until the gateway is started again,
too.

A program that writes the file for longer, with a pause of seconds, may have its beginning used,
with the keys and limits that are in it. Have it write another file and rename that one: that is one
step.

`swink gateway --check FILE` exits with 0 for a file that can be used, after printing what it says
and which patterns of keys fit no name that is known, and with 2 for one that cannot, after printing
all of its faults. The environment has to hold the variables, and the providers have to be
installed, as where it is to run."""

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
    "tuple[tuple[Upstream, ...], ...]": "models, or lists of them",
}
"""Types as who writes TOML knows them."""


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
