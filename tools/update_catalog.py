"""Bring a plugin's model rows up to date: `update_catalog.py plugins/swink-provider-x`.

Between two marker comments of its `models.toml` a plugin lists the models that it wants in the
catalogue; this script fills in their names, context windows and prices from the `genai-prices`
package, and the day on which it did. What that package does not know is kept as it is written:
the choice of models, `provider`, `max_output`, `capabilities`, `status`, `api` and `extra`. To
add a model, write a row with its `id` (and `provider`) and run the script.

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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

BEGIN = "# >>> models"
END = "# <<< models"
SOURCE = re.compile(r"^# source: (\S+) = (\S+)$", re.MULTILINE)

FIELDS = (
    "id", "provider", "name", "context_window", "max_output", "capabilities", "status", "api",
    "prices", "as_of", "extra",
)  # fmt: skip
PRICES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folder", type=Path, help="the plugin's folder")
    folder: Path = arguments.parse_args().folder
    files = list(folder.glob("src/*/models.toml"))
    if len(files) != 1:
        sys.exit(f"{folder} has {len(files)} files src/*/models.toml, not one")
    [file] = files
    before = file.read_text("utf-8")
    after, unknown = updated(before, datetime.now(UTC))
    file.write_text(after, "utf-8")
    for name in unknown:
        print(f"genai-prices does not know {name}; its row is kept as it was", file=sys.stderr)
    print(f"{file}: {'unchanged' if after == before else 'updated'}")


def updated(text: str, now: datetime) -> tuple[str, list[str]]:
    """Return the file's new text, and the models that genai-prices does not know."""
    head, found, rest = text.partition(BEGIN + "\n")
    body, closed, tail = rest.partition(END)
    if not (found and closed):
        sys.exit(f"the file has no lines {BEGIN!r} and {END!r}")
    data = tomllib.loads(text)
    providers = [*data.get("providers", ()), *filter(None, [data.get("provider")])]
    sources = _sources(providers, dict(SOURCE.findall(body)))
    unknown = []
    rows = tomllib.loads(body).get("models", [])
    for row in rows:
        provider = row.get("provider", providers[0]["name"])
        source = sources.get(provider)
        model = source.find_model(row["id"]) if source else None
        if model is None:
            unknown.append(f"{provider}/{row['id']}")
            continue
        row["name"] = model.name or row.get("name", row["id"])
        if model.context_window is not None:
            row["context_window"] = model.context_window
        row["prices"] = _prices(model, now)
        row["as_of"] = now.date().isoformat()
    notes = "".join(f"{match[0]}\n" for match in SOURCE.finditer(body))
    blocks = "\n".join(_block(row) for row in rows)
    return f"{head}{BEGIN}\n{notes}{blocks}{END}{tail}", unknown


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


def _prices(model: ModelInfo, now: datetime) -> dict[str, float]:
    """Return US dollars per million tokens; of tiers, that of the shortest prompts."""
    current: ModelPrice = model.get_prices(now)
    prices = {}
    for ours, theirs in PRICES.items():
        price = getattr(current, theirs)
        if price is not None:
            prices[ours] = float(price.base if isinstance(price, TieredPrices) else price)
    return prices


def _block(row: dict[str, Any]) -> str:
    unknown = sorted(set(row) - set(FIELDS))
    if unknown:
        sys.exit(f"{row['id']} has unknown fields: {', '.join(unknown)}")
    lines = [f"{name} = {_toml(row[name])}" for name in FIELDS if row.get(name) not in (None, {})]
    return "\n".join(["[[models]]", *lines, ""])


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:_}"
        case float():
            return repr(value) if value != int(value) else f"{value:.1f}"
        case str():
            return '"{}"'.format(value.replace("\\", "\\\\").replace('"', '\\"'))
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return f"{{ {', '.join(f'{k} = {_toml(v)}' for k, v in value.items())} }}"
    raise TypeError(f"no TOML for {value!r}")


if __name__ == "__main__":
    main()
