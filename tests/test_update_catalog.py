"""The script that brings model rows up to date, held against the package that it asks."""

from __future__ import annotations

import re
import shutil
import tomllib
from datetime import UTC, date, datetime
from pathlib import Path

import limits
import pytest
import update_catalog
from genai_prices.data_snapshot import get_snapshot

ROOT = Path(__file__).resolve().parent.parent
NOW = datetime(2026, 11, 1, tzinfo=UTC)
CATALOGUES = sorted(ROOT.glob("plugins/*/src/*/models.toml"))
UPDATED = [path for path in CATALOGUES if update_catalog.BEGIN in path.read_text("utf-8")]

ROWS = """
[[providers]]
name = "{provider}"

[[providers]]
name = "other"

# >>> models
# source: other = {provider}
[[models]]
id = "{dear}"
capabilities = ["tools"]

[[models]]
id = "{cheap}"
provider = "other"

[[models]]
id = "of my own"
max_output = 5
# <<< models
# the rest
"""


def _known() -> dict[str, str]:
    """Find a provider that is known by name, with two models of different prices."""
    for provider in get_snapshot().providers:
        prices = {}
        for model in provider.models:
            row = f'# >>> models\n[[models]]\nid = "{model.id}"\n# <<< models\n'
            text = f'[[providers]]\nname = "{provider.id}"\n\n{row}'
            after, unknown = update_catalog.updated(text, NOW)
            [filled] = tomllib.loads(after).get("models") or [{}]  # none of one that is gone
            if not unknown and isinstance(filled.get("prices", {}).get("input"), float):
                prices[filled["prices"]["input"]] = model.id
            if len(prices) == 2 and all(prices):
                return {
                    "provider": provider.id,
                    "dear": prices[max(prices)],
                    "cheap": prices[min(prices)],
                }
    raise AssertionError("nobody is known")


def test_the_script_fills_in_what_it_knows_and_keeps_what_is_written() -> None:
    known = _known()
    rows = ROWS.format(**known)

    after, unknown = update_catalog.updated(rows, NOW)

    dear, cheap, own = tomllib.loads(after)["models"]
    assert dear["capabilities"] == ["tools"]
    assert dear["prices"]["input"] > cheap["prices"]["input"] > 0
    assert dear["as_of"] == update_catalog._facts()["as_of"]
    assert own == {"id": "of my own", "max_output": 5}
    assert unknown == [f"{known['provider']}/of my own"]
    assert after.startswith(rows.partition("# >>>")[0])
    assert after.endswith("# <<< models\n# the rest\n")
    assert f"# source: other = {known['provider']}\n" in after


@pytest.mark.parametrize("path", UPDATED, ids=lambda path: path.parent.name)
def test_prices_and_aliases_come_from_their_sources_whoever_runs_the_script_and_when(
    path: Path,
) -> None:
    text = path.read_text("utf-8")
    head, begin, rest = text.partition(update_catalog.BEGIN)
    rows, end, tail = rest.partition(update_catalog.END)
    rows = re.sub(r"^prices = \{.*\n(    .*\n|\].*\n)*", "", rows, flags=re.MULTILINE)
    rows = re.sub(r"^(match|as_of) = .*\n", "", rows, flags=re.MULTILINE)
    assert "prices" not in rows

    assert update_catalog.updated(head + begin + rows + end + tail, NOW)[0] == text


def test_a_run_says_that_nothing_changed_and_one_with_other_prices_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = min(UPDATED, key=lambda path: path.stat().st_size).parents[2]
    copy = Path(shutil.copytree(folder, tmp_path / folder.name))
    monkeypatch.setattr("sys.argv", ["update_catalog.py", str(copy)])

    update_catalog.main()
    assert capsys.readouterr().out == "nothing changed\n"

    monkeypatch.setattr(update_catalog, "version", lambda name: "9.9")
    with pytest.raises(SystemExit, match=r"9\.9 is installed.*anew"):
        update_catalog.main()


def test_a_table_is_read_from_a_file_or_a_url(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text('{"mine/one": {}}', "utf-8")

    assert limits.tables_of([str(file), file.as_uri()]) == [{"mine/one": {}}] * 2


def test_a_model_that_is_gone_leaves_the_rows_and_has_a_rule() -> None:
    text = """[provider]
name = "deepseek"

# >>> dates
# <<< dates
# >>> models
[[models]]
id = "deepseek-chat"

[[models]]
id = "deepseek-flash"
# <<< models
"""

    after, _ = update_catalog.updated(text, NOW)

    data = tomllib.loads(after)
    assert [row["id"] for row in data["models"]] == ["deepseek-flash"]
    assert [(rule["retires"], rule["successor"]) for rule in data["rules"]] == [
        ("2026-07-24", "deepseek-flash")
    ]
    assert list(update_catalog.changes(text, after))[:3] == [
        "deepseek-chat is gone",
        f"deepseek-flash: as_of None -> {update_catalog._facts()['as_of']}",
        "deepseek-flash: capabilities None -> ['tools', 'images', 'thinking', 'json']",
    ]
    assert (
        "deepseek/^deepseek-(chat|reasoner)$: retires None -> 2026-07-24"
        in update_catalog.changes(text, after)
    )


def test_every_correction_names_its_source_and_the_models_it_is_for() -> None:
    for kind in ("models", "retired"):
        for fact in update_catalog.facts(kind):
            assert fact["source"].startswith("https://"), fact
            assert fact["providers"], fact
            re.compile(fact["match"])


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parent.name)
def test_every_row_has_a_limit_and_capabilities_and_none_is_gone(path: Path) -> None:
    data = tomllib.loads(path.read_text("utf-8"))
    first = [*data.get("providers", ()), data.get("provider")][0]["name"]
    for row in data.get("models", ()):
        provider = row.get("provider", first)
        limited = not any(
            provider in fact["providers"] and re.search(fact["match"], row["id"])
            for fact in update_catalog.facts("unlimited")
        )
        assert bool(row.get("max_output")) is limited, f"{provider}/{row['id']}"
        assert row.get("capabilities"), f"{provider}/{row['id']}"
        assert not update_catalog._gone(provider, row["id"], NOW), row["id"]
        free = (row.get("prices") or {}).get("input") == 0
        assert free is (provider in {"echo", "local"}), f"{provider}/{row['id']}"


LITELLM = {
    "mine/one": {
        "litellm_provider": "mine",
        "max_input_tokens": 900,
        "max_output_tokens": 100,
        "supports_pdf_input": True,
    },
}
MODELS_DEV = {
    "mine": {
        "models": {
            "one": {
                "limit": {"context": 1000, "output": 50},
                "tool_call": True,
                "reasoning": False,
                "modalities": {"input": ["text", "audio"]},
            },
            "two": {"limit": {"context": 0, "output": 0}, "tool_call": False},
        }
    }
}


def test_the_first_table_has_the_limits_and_all_of_them_the_capabilities() -> None:
    both = limits.limits_of("mine", "one", [LITELLM, MODELS_DEV])

    assert both == {
        "context_window": 900,
        "max_output": 100,
        "capabilities": ["tools", "documents", "audio"],
    }
    assert limits.limits_of("mine", "one", [MODELS_DEV, LITELLM])["max_output"] == 50
    assert limits.limits_of("mine", "two", [MODELS_DEV]) == {"capabilities": []}
    assert limits.limits_of("mine", "three", [MODELS_DEV, LITELLM]) == {}


def test_data_of_tables_replace_rows_and_corrections_override_both() -> None:
    text = """[provider]
name = "deepseek"

# >>> models
[[models]]
id = "deepseek-v4-pro"
max_output = 7
capabilities = ["audio"]

[[models]]
id = "unheard-of"
max_output = 7
capabilities = ["audio"]
# <<< models
"""
    told = {"limit": {"context": 9, "output": 9}, "tool_call": True}
    tables = [{"deepseek": {"models": {"deepseek-v4-pro": told}}}]

    after, _ = update_catalog.updated(text, NOW, tables)

    known, unknown = tomllib.loads(after)["models"]
    assert known["capabilities"] == ["tools", "json"]
    assert known["max_output"] == 384_000
    assert unknown["max_output"] == 7
    assert unknown["capabilities"] == ["audio", "json"]


@pytest.mark.parametrize("file", CATALOGUES, ids=lambda file: file.parent.name)
def test_every_rule_price_and_retirement_says_on_which_day_it_was_checked(file: Path) -> None:
    data = tomllib.loads(file.read_text("utf-8"))
    days = [str(data["rules_as_of"])] if "rules_as_of" in data else []
    rules = data.get("rules", ())
    days += [rule["as_of"] for rule in rules if "as_of" in rule]
    days += [row["as_of"] for row in data.get("models", ()) if any(row.get("prices", {}).values())]

    undated = [rule["name"] for rule in rules if "as_of" not in rule and "rules_as_of" not in data]
    assert undated == []
    assert [rule["name"] for rule in rules if "retires" in rule and "as_of" not in rule] == []
    assert all("2026-01-01" <= day <= date.today().isoformat() for day in days)
