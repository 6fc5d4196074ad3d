"""Bring plugins' model rows up to date: `update_catalog.py [--table FILE]… [plugins/…]`.

Between two marker comments, a plugin's `models.toml` lists the models of the catalogue. This script
fills in their data, for every plugin or for the named ones, and prints the changes:

* from the `genai-prices` package: names, context windows, prices and the ids that a model is also
  known by (`match`);
* from tables of limits, if they are given (see limits.py): `max_output`, `capabilities`, and
  `context_window` where genai-prices has none;
* from `catalog.toml` beside this script, which overrides the others: corrections from a vendor's
  pages, each with its source, the date of these facts, and when models retire. It writes those
  rules, with that date as their `as_of`, between the markers `# >>> dates` and `# <<< dates`; a
  retired model leaves the rows.

The same sources make the same files, whoever runs it and when, but for models that retire
meanwhile. All anew, from litellm's table (which is in its wheel) and models.dev's:

    tools/update_catalog.py --table model_prices_and_context_window_backup.json \\
                            --table https://models.dev/api.json

Prices without a source are removed from a row. Other data without a source are kept unchanged: the
choice of models, `provider`, `status`, `api` and `extra`. To add a model, write a row with its `id`
(and `provider`) and run the script.

    # >>> models
    # source: bedrock = aws
    [[models]]
    id = "…"
    # <<< models

A provider is found there by its base URL or its own name; a `source` line names it where
neither helps.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import (
    ClauseAnd,
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    Provider,
)
from limits import Table, in_order, limits_of, tables_of
from price_rows import prices_of
from toml_values import toml_of

ROOT = Path(__file__).resolve().parent.parent
FACTS = Path(__file__).with_name("catalog.toml")

BEGIN = "# >>> models"
END = "# <<< models"
SOURCE = re.compile(r"^# source: (\S+) = (\S+)$", re.MULTILINE)

DATES = "# >>> dates", "# <<< dates"
ENDS = "retires", "successor"

FIELDS = (
    "id", "provider", "name", "match", "media", "context_window", "max_output", "capabilities",
    "status", "api", "prices", "as_of", "extra",
)  # fmt: skip

KEYS = {"id", "provider", "match", "prices"}
PRICED = {"prices", "more_cases", "long_writes"}

IN_ARNS = {"bedrock"}
"""Providers that also accept a model by an ARN, which ends in the model's id."""

WITH_WINDOW = {"claude-code"}
"""Providers whose model ids may end in `[1m]`, which requests a context of a million tokens."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folders", type=Path, nargs="*", help="plugins' folders; none: all")
    arguments.add_argument(
        "--table", action="append", default=[], help="a table of limits, a file or a URL, in turn"
    )
    given = arguments.parse_args()
    _held_against_these_prices()
    tables = tables_of(given.table)
    changed = False
    for folder in given.folders or sorted((ROOT / "plugins").iterdir()):
        for file in folder.glob("src/*/models.toml"):
            before = file.read_text("utf-8")
            if BEGIN not in before and DATES[0] not in before:
                continue
            after, unknown = updated(before, datetime.now(UTC), tables)
            file.write_text(after, "utf-8")
            for name in unknown:
                print(f"nobody knows what {name} costs", file=sys.stderr)
            for line in changes(before, after):
                print(f"{folder.name}: {line}")
            changed |= before != after
    if not changed:
        print("nothing changed")


def _held_against_these_prices() -> None:
    """Exit where the corrections were made to other prices than those that are installed."""
    held, installed = _facts()["genai_prices"], version("genai-prices")
    if held != installed:
        sys.exit(
            f"catalog.toml corrects genai-prices {held}, and {installed} is installed. Hold its"
            " corrections against the vendors' pages anew, then say so at its top."
        )


def updated(text: str, now: datetime, tables: Sequence[Table] = ()) -> tuple[str, list[str]]:
    """Return the file's new text, and the models without known prices."""
    data = tomllib.loads(text)
    providers = [*data.get("providers", ()), *filter(None, [data.get("provider")])]
    head, found, rest = text.partition(BEGIN + "\n")
    body, _, tail = rest.partition(END)
    unknown: list[str] = []
    if found:
        sources = _sources(providers, dict(SOURCE.findall(body)))
        rows = []
        for row in tomllib.loads(body).get("models", []):
            provider = row.get("provider", providers[0]["name"])
            if _gone(provider, row["id"], now):
                continue
            _fill(row, provider, sources.get(provider), tables)
            if "prices" not in row:
                unknown.append(f"{provider}/{row['id']}")
            rows.append(row)
        _match(rows, providers[0]["name"], sources)
        notes = "".join(f"{match[0]}\n" for match in SOURCE.finditer(body))
        text = f"{head}{BEGIN}\n{notes}" + "\n".join(map(_block, rows)) + f"{END}{tail}"
    return _dated(text, {each["name"] for each in providers}), unknown


def changes(before: str, after: str) -> Iterator[str]:
    """Describe the changes of each model and of each rule that ends one, one line per field."""
    old, new = (_named(tomllib.loads(text)) for text in (before, after))
    for key in sorted(old.keys() | new.keys()):
        name = "/".join(filter(None, key))
        if key not in new:
            yield f"{name} is gone"
            continue
        was, row = old.get(key, {}), new[key]
        for field in sorted(was.keys() | row.keys()):
            if was.get(field) != row.get(field):
                yield f"{name}: {field} {was.get(field)} -> {row.get(field)}"


def _named(data: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return rows and rules by what `changes` calls them."""
    rows = {(row.get("provider", ""), row["id"]): row for row in data.get("models", ())}
    for rule in data.get("rules", ()):
        if "retires" in rule:
            whose = " and ".join(rule.get("providers", ()))
            rows[whose, rule["match"]] = {k: rule[k] for k in ENDS if k in rule}
    return rows


def _fill(
    row: dict[str, Any], provider: str, source: Provider | None, tables: Sequence[Table]
) -> None:
    """Fill in the known data of a row's model."""
    row.update(limits_of(provider, row["id"], tables))
    row.pop("prices", None)
    row.pop("as_of", None)
    model = source.find_model(row["id"]) if source else None
    if model is not None:
        row["name"] = model.name or row.get("name", row["id"])
        if model.context_window is not None:
            row["context_window"] = model.context_window
        row["prices"] = prices_of(model)
        row["as_of"] = _facts()["as_of"]
    for fact in facts("models"):
        if provider in fact["providers"] and re.search(fact["match"], row["id"]):
            _correct(row, fact)
    if row.get("context_window") and row.get("max_output", 0) > row["context_window"]:
        row["max_output"] = row["context_window"]


def _correct(row: dict[str, Any], fact: Mapping[str, Any]) -> None:
    """Lay over a row what a vendor's page says."""
    row.update((name, fact[name]) for name in FIELDS if name in fact and name not in KEYS)
    if "capabilities" in row:
        words = {*row["capabilities"], *fact.get("can", ())} - {*fact.get("cannot", ())}
        row["capabilities"] = in_order(words)
    known = "prices" in fact or "prices" in row
    if not known or not fact.keys() & PRICED:
        return
    prices = {**row.get("prices", {}), **fact.get("prices", {})}
    if more := fact.get("more_cases"):
        prices["cases"] = [*(c for c in prices.get("cases", ()) if c not in more), *more]
    if times := fact.get("long_writes"):
        for each in (prices, *prices.get("cases", ())):
            if "cache_write" in each:
                each["cache_write_long"] = each["cache_write"] * times
    row["prices"] = prices
    row["as_of"] = fact.get("as_of", _facts()["as_of"])


def facts(kind: str) -> list[dict[str, Any]]:
    """Return the entries of a kind that `catalog.toml` has."""
    return list(_facts()[kind])


@cache
def _facts() -> dict[str, Any]:
    return tomllib.loads(FACTS.read_text("utf-8"))


def _gone(provider: str, model_id: str, now: datetime) -> bool:
    return any(
        provider in each["providers"]
        and re.search(each["match"], model_id)
        and each["retires"] <= now.date().isoformat()
        for each in facts("retired")
    )


def _dated(text: str, names: set[str]) -> str:
    """Return the text with the rules that say when the providers' models retire."""
    begin, end = DATES
    head, found, rest = text.partition(begin + "\n")
    if not found:
        return text
    rules = []
    for number, each in enumerate(facts("retired")):
        if mine := sorted(names & set(each["providers"])):
            ids = _with_window(each["match"]) if WITH_WINDOW.issuperset(mine) else each["match"]
            rule = {"name": f"retired-{number}", "match": ids, "providers": mine}
            rule |= {k: each[k] for k in ENDS if k in each}
            rule["as_of"] = each.get("as_of", _facts()["as_of"])
            lines = "".join(f"{name} = {toml_of(value)}\n" for name, value in rule.items())
            rules.append(f"[[rules]]\n{lines}")
    return f"{head}{begin}\n" + "\n".join(rules) + end + rest.partition(end)[2]


def _match(rows: list[dict[str, Any]], first: str, sources: Mapping[str, Provider]) -> None:
    """Set `match` of each row to a pattern of the ids for which its model's prices hold."""
    for row in rows:
        source = sources.get(row.get("provider", first))
        model = source.find_model(row["id"]) if source else None
        row.pop("match", None)
        if source is None or model is None:
            continue
        rivals = [r for r in rows if r is not row and r.get("provider") == row.get("provider")]
        if any(source.find_model(r["id"]) is model for r in rivals[: rows.index(row)]):
            continue  # the row before it answers for all of them
        pattern = re.compile(f"(?i){_pattern(model.match)}")
        others = [
            other.id
            for other in source.models
            if other is not model
            and pattern.search(other.id)
            and source.find_model(other.id) is not model
        ]
        not_these = f"^(?!(?:{'|'.join(map(_escaped, sorted(others)))})$)" if others else ""
        named = _pattern(model.match)
        if row.get("provider", first) in IN_ARNS:
            named = re.sub(r"(?<![\[\\])\^", "(?:^|/)", named)
        if row.get("provider", first) in WITH_WINDOW:
            named = _with_window(named)
        row["match"] = f"(?i){not_these}{'.*' if not_these else ''}{named}"


def _with_window(pattern: str) -> str:
    """Return a pattern that also matches these ids with `[1m]` after them."""
    return re.sub(r"(?<!\\)\$", r"(?:\\[1m\\])?$", pattern)


def _pattern(clause: object) -> str:
    """Return a pattern for the ids that a clause of genai-prices matches."""
    match clause:
        case ClauseEquals(equals=text):
            return f"^{_escaped(text)}$"
        case ClauseStartsWith(starts_with=text):
            return f"^{_escaped(text)}"
        case ClauseEndsWith(ends_with=text):
            return f"{_escaped(text)}$"
        case ClauseContains(contains=text):
            return _escaped(text)
        case ClauseRegex(regex=text):
            return text
        case ClauseOr(or_=parts):
            return f"(?:{'|'.join(map(_pattern, parts))})"
        case ClauseAnd(and_=parts):
            return "^" + "".join(f"(?=.*{_pattern(part)})" for part in parts)
    raise TypeError(f"no expression for {clause!r}")


def _sources(providers: list[dict[str, Any]], named: dict[str, str]) -> dict[str, Provider]:
    known = {provider.id: provider for provider in get_snapshot().providers}
    found: dict[str, Provider] = {}
    for row in providers:
        name, url = row["name"], row.get("base_url") or ""
        by_url = (p for p in known.values() if url and re.match(p.api_pattern, url))
        source = known.get(named.get(name, name)) or next(by_url, None)
        if source is not None:
            found[name] = source
    return found


def _escaped(text: str) -> str:
    return re.sub(r"[.^$*+?{}\[\]\\|()]", r"\\\g<0>", text)


def _block(row: dict[str, Any]) -> str:
    unknown = sorted(set(row) - set(FIELDS))
    if unknown:
        sys.exit(f"{row['id']} has unknown fields: {', '.join(unknown)}")
    lines = [f"{name} = {toml_of(row[name])}" for name in FIELDS if row.get(name) not in (None, {})]
    return "\n".join(["[[models]]", *lines, ""])


if __name__ == "__main__":
    main()
