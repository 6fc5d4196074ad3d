"""The pages of the reference for those who write plugins: the toolbox, models.toml, recordings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_args

import attrs
import msgspec
from reference_parts import (
    MARK,
    about,
    code,
    default_of,
    fields,
    joined,
    section,
    signature,
    table,
    words,
    written_type,
)

import swink_core
from swink_core import providers
from swink_core.plugins.package_data import FILE
from swink_core.vocabulary import models, prices
from swink_core.vocabulary.structs import Record
from swink_provider_openai import Dialect
from swink_recorder import legs, recording
from swink_testing.conformance.failures import errors
from swink_testing.conformance.subject import WHOLE_ANSWERS

FIRST = ("HTTPProvider", "Parser", "EventWriter", "MessageConverter", "EventSource")
"""The parts of a provider, in the order in which one is written."""

OF_CORE = (
    "Failure",
    "Classification",
    "ProviderFailure",
    "StopReason",
    "ProviderInfo",
    "Notice",
    "ResponseHead",
)


def toolbox() -> str:
    """Return the page of what a provider is made of."""
    names = [name for name in providers.__all__ if name not in FIRST]
    classes = [n for n in names if inspect.isclass(getattr(providers, n))]
    functions = [n for n in names if inspect.isfunction(getattr(providers, n))]
    rest = [n for n in names if n not in (*classes, *functions, "Phase")]
    return joined(
        "# Provider toolbox",
        MARK,
        "`swink_core.providers` exports these names for authors of plugins. `swink_core` exports\n"
        "[messages](messages.md), [events](events.md), [options](options.md) and\n"
        "[hooks](hooks.md).",
        *(_class(getattr(providers, name)) for name in FIRST),
        "## `Phase`",
        "The phase in which a call failed: " + words(get_args(providers.Phase)) + ".",
        *(_class(getattr(swink_core, name)) for name in OF_CORE),
        "## Functions",
        *_functions(functions),
        "## More classes",
        *(_class(getattr(providers, name)) for name in classes),
        "## Values",
        table(("name", "value"), [(code(n), code(f"{getattr(providers, n)!r:.80}")) for n in rest]),
    )


def _functions(names: list[str]) -> Iterator[str]:
    for name in names:
        function = getattr(providers, name)
        yield f"### `{name}`"
        yield signature(name, function)
        yield about(function)


def _class(kind: type) -> str:
    if issubclass(kind, msgspec.Struct) and not issubclass(kind, Record):
        return joined(f"## `{kind.__name__}`", about(kind), keys(kind))
    if issubclass(kind, str):  # an enumeration of words
        listed: Any = kind
        return joined(f"## `{kind.__name__}`", about(kind), words(map(str, listed)))
    own = vars(kind).get("__init__")  # of a protocol it is typing's; attrs' classes have fields
    written = inspect.isfunction(own) and own.__module__ == kind.__module__
    return section(kind, made=written and not attrs.has(kind))


def keys(kind: type[msgspec.Struct]) -> str:
    """Tabulate the keys that a table of a file may have."""
    rows = [
        (code(field.encode_name), code(written_type(kind, field.name)), code(default_of(field)))
        for field in msgspec.structs.fields(kind)
    ]
    return table(("key", "type", "default"), rows)


def models_toml() -> str:
    """Return the page of models.toml."""
    parts: dict[str, type[msgspec.Struct]] = {
        "`[provider]`, `[[providers]]`": models.ProviderInfo,
        "`[[models]]`": models.ModelInfo,
        "`prices` of a model": prices.Prices,
        "`[[rules]]`": models.Rule,
    }
    return joined(
        f"# {FILE}",
        MARK,
        f"A package of providers contains `{FILE}`, which is read without importing the plugin.\n"
        "[Describe models](../how-to/describe-models.md) explains how to write one. Unknown keys\n"
        "are errors. `rules_of` lists packages whose rules are applied first.",
        *(joined(f"## {name}", about(kind), keys(kind)) for name, kind in parts.items()),
        "## `[provider.dialect]`",
        "This table declares the differences of an [OpenAI-compatible\n"
        "provider](../how-to/declare-a-dialect.md) from OpenAI's API.",
        about(Dialect),
        fields(Dialect),
    )


def recordings() -> str:
    """Return the page of the files that the kit reads of a package."""
    return joined(
        "# Recordings and other files of a package",
        MARK,
        "`swink record` writes recordings; the [conformance kit](conformance.md), `swink demo`\n"
        "and `swink replay` read them.",
        f"## `{recording.BUNDLE}/`",
        about(recording),
        section(recording.Recording),
        section(legs.RecordedRequest),
        section(legs.RecordedLeg),
        f"## `{WHOLE_ANSWERS}/`",
        "This folder contains recordings of unstreamed answers, in the same format. Their body is\n"
        "JSON.",
        f"## `{errors.LISTED_ERRORS}`",
        "This file lists errors of the API and their kinds, one JSON object per line.",
        about(errors.ListedError),
        keys(errors.ListedError),
        "## `request_rules.jsonl`, `waivers.toml`, `ignored_fields.toml`",
        "These files list requests that the API rejects, faults that the conformance tests\n"
        "accept, and fields of answers that the provider ignores. [Check a\n"
        "provider](../how-to/check-a-provider.md) describes them.",
    )
