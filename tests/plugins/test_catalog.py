"""Providers, models and prices, from package data and the user's own file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swink_core import (
    Cost,
    Host,
    InvalidModel,
    Model,
    ModelInfo,
    PluginError,
    SwinkError,
    UnknownProvider,
    Usage,
)
from swink_core.plugins.package_data import package_catalog
from swink_core.providers import Catalog
from swink_core.vocabulary.models import Rule
from swink_core.vocabulary.prices import Prices, cost_of

FILE = r"""
[[providers]]
name = "acme"
title = "Acme Inc."
wire_format = "acme-chat"
base_url = "https://api.acme.example/v1"
api_key_env = ["ACME_API_KEY"]

[[providers]]
name = "acme-eu"

[[models]]
id = "large"
context_window = 200_000
match = '^large-\d{4}$|^acme-large$'
capabilities = ["tools", "thinking"]
prices = { input = 3.0, output = 15.0 }
as_of = "2026-11-01"

[[models]]
id = "team/large:v2"
provider = "acme-eu"
"""

USER_FILE = """
[provider]
name = "acme"
base_url = "http://localhost:8080"

[[models]]
id = "large"
context_window = 5

[[models]]
id = "mine"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a catalogue, whose import fails."""
    folder = tmp_path / "catalogue_of_acme"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('must not be imported')")
    (folder / "models.toml").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def catalog_of(*names: str, package: str = "catalogue_of_acme", **environ: str) -> Catalog:
    points = [
        SimpleNamespace(
            name=name,
            group="swink.providers",
            value=f"{package}:Provider",
            load=None,
            dist=SimpleNamespace(name="swink-acme", version="1"),
        )
        for name in names
    ]
    return Catalog(Host(entry_points=points, environ={}), environ)


@pytest.mark.parametrize("module", ["catalogue_of_acme.inner", "catalogue_of_acme.inner.plugin"])
def test_the_facts_of_a_plugin_in_a_module_are_those_of_its_top_level_package(
    package: Path, module: str
) -> None:
    assert catalog_of("acme", package=module).provider("acme").title == "Acme Inc."


def test_facts_are_read_without_importing_the_package(package: Path) -> None:
    catalog = catalog_of("acme", "acme-eu")
    provider = catalog.provider("acme")
    assert provider is not None
    assert (provider.title, provider.base_url) == ("Acme Inc.", "https://api.acme.example/v1")
    assert provider.api_key_env == ("ACME_API_KEY",)
    model = catalog.model("acme", "large")
    assert model is not None
    assert (model.provider, model.context_window) == ("acme", 200_000)
    assert model.capabilities == {"tools", "thinking"}
    assert model.prices == Prices(3.0, 15.0)
    assert "catalogue_of_acme" not in sys.modules


def test_a_model_belongs_to_the_first_provider_unless_it_says_otherwise(package: Path) -> None:
    catalog = catalog_of("acme", "acme-eu")
    assert [model.id for model in catalog.models("acme")] == ["large"]
    assert [model.id for model in catalog.models("acme-eu")] == ["team/large:v2"]
    assert catalog.model("acme", "team/large:v2") is None


def test_a_title_that_is_not_stated_is_the_name(package: Path) -> None:
    provider = catalog_of("acme-eu").provider("acme-eu")
    assert provider is not None
    assert provider.title == "acme-eu"


def test_a_name_is_resolved_with_what_is_known(package: Path) -> None:
    catalog = catalog_of("acme", "acme-eu")
    assert catalog.resolve("acme-eu/team/large:v2").info is not None
    assert catalog.resolve("acme/new").info is None
    known = Model("acme", "large", catalog.model("acme", "large"))
    assert catalog.resolve(known) is known
    with pytest.raises(ValueError, match="provider/id"):
        catalog.resolve("nobody-lists-it")
    with pytest.raises(InvalidModel, match="not int"):
        catalog.resolve(5)  # type: ignore[arg-type]
    assert catalog.resolve("large") == Model("acme", "large")


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("team/large", "acme"),  # no provider is called so
        ("acme-eu/large", "acme-eu"),  # one is, and is meant
    ],
)
def test_an_id_with_a_slash_is_a_bare_name_unless_it_begins_with_a_providers(
    package: Path, name: str, provider: str
) -> None:
    (package / "models.toml").write_text(f'[provider]\nname = "acme"\n[[models]]\nid = "{name}"')

    assert catalog_of("acme", "acme-eu").resolve(name).provider == provider


@pytest.mark.parametrize(
    ("model_id", "known"),
    [("large", True), ("large-2026", True), ("acme-large", True), ("larger", False), ("x", False)],
)
def test_a_row_is_for_its_aliases_too(package: Path, model_id: str, known: bool) -> None:
    info = catalog_of("acme").model("acme", model_id)

    assert (info is not None) is known
    if info is not None:
        assert (info.id, info.context_window) == (model_id, 200_000)


def test_the_users_file_overrides_providers_and_models(package: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(USER_FILE)
    catalog = catalog_of("acme", SWINK_MODELS=str(file))
    provider, model = catalog.provider("acme"), catalog.model("acme", "large")
    assert provider is not None
    assert model is not None
    assert (provider.base_url, model.context_window) == ("http://localhost:8080", 5)
    assert [model.id for model in catalog.models("acme")] == ["large", "mine"]


def test_the_users_file_overrides_only_the_fields_that_it_sets(
    package: Path, tmp_path: Path
) -> None:
    (package / "models.toml").write_text(
        FILE.replace("[[models]]", 'settings = { region = "string" }\n[[models]]', 1)
    )
    file = tmp_path / "mine.toml"
    file.write_text(
        '[[providers]]\nname = "acme"\nbase_url = "http://localhost:8080"\nauth = "none"\n'
        '[[providers]]\nname = "acme-eu"\nbase_url = "http://own.invalid"\n'
    )
    catalog = catalog_of("acme", "acme-eu", SWINK_MODELS=str(file))
    acme, eu = catalog.provider("acme"), catalog.provider("acme-eu")
    assert acme is not None
    assert eu is not None
    assert (acme.base_url, acme.auth) == ("http://localhost:8080", "none")
    assert (acme.title, acme.wire_format) == ("Acme Inc.", "acme-chat")
    assert acme.api_key_env == ("ACME_API_KEY",)
    assert (eu.base_url, eu.settings) == ("http://own.invalid", {"region": "string"})


@pytest.mark.parametrize("field", ['wire_format = "other"', "api_level = 0"])
def test_a_users_file_that_changes_what_code_decides_is_rejected(
    package: Path, tmp_path: Path, field: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'[provider]\nname = "acme"\n{field}\n')
    catalog = catalog_of("acme", SWINK_MODELS=str(file))
    name = field.partition(" ")[0]
    with pytest.raises(PluginError, match=rf'mine.toml: the {name} of the provider "acme" is '):
        catalog.provider("acme")


def test_the_users_file_is_read_again_when_it_has_changed(package: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[models]]\nid = "one"')
    catalog = catalog_of("acme", SWINK_MODELS=str(file))
    users = catalog.users
    assert catalog.users is users
    file.write_text('[[models]]\nid = "two"\ncontext_window = 5')
    os.utime(file, (1, 1))
    assert catalog.users is not users


def test_a_users_file_that_cannot_be_read_is_named(package: Path, tmp_path: Path) -> None:
    catalog = catalog_of("acme", SWINK_MODELS=str(tmp_path / "missing.toml"))
    with pytest.raises(SwinkError, match=r"missing\.toml: No such file") as caught:
        catalog.provider("acme")
    assert "SWINK_MODELS" in caught.value.resolution


def test_a_users_file_in_an_unknown_home_is_named(package: Path) -> None:
    catalog = catalog_of("acme", SWINK_MODELS="~nobody-here/mine.toml")
    with pytest.raises(SwinkError, match=r"~nobody-here/mine\.toml: .* home directory"):
        catalog.provider("acme")


# (name, file, part of the message)
BROKEN = [
    (
        "an_unknown_name_in_takes",
        '[[rules]]\nname = "r"\ntakes = { presence_penaltyy = false }',
        'the rule "r" has "presence_penaltyy" in `takes`, which is unknown; did you mean '
        '"presence_penalty"?',
    ),
    (
        "an_unknown_name_in_when",
        '[[rules]]\nname = "r"\nwhen = { thinkin = ["on"] }',
        'did you mean "thinking"?',
    ),
    ("no_toml", "providers = [", "models.toml"),
    ("an_unknown_key", '[provider]\nname = "acme"\nkolour = "red"', "kolour"),
    ("an_unknown_table", '[provider]\nname = "acme"\n[[modles]]\nid = "large"', "modles"),
    ("an_unknown_fact_of_a_model", '[[models]]\nid = "large"\nkolour = 1', "kolour"),
    ("an_unknown_price", '[[models]]\nid = "large"\nprices = { inptu = 1 }', "inptu"),
    (
        "an_unknown_price_of_a_case",
        '[[models]]\nid = "large"\nprices = { cases = [{ inptu = 1 }] }',
        "inptu",
    ),
    ("an_unknown_fact_of_a_rule", "[[rules]]\nkolour = 1", "kolour"),
    (
        "an_unknown_count_of_media",
        '[provider]\nname = "acme"\nmedia = { imgae = 1 }',
        "imgae",
    ),
    ("a_wrong_type", "[provider]\nname = 5", "name"),
    ("no_name", "[provider]\n", "name"),
    (
        "no_expression",
        '[provider]\nname = "acme"\n[[models]]\nid = "large"\nmatch = "("',
        "large '('",
    ),
    ("a_day_that_is_none", '[[rules]]\nretires = "soon"', "'soon' - at `$.rules[0]`"),
    ("an_option_of_nobody", "[[rules]]\nchange = { nope = 1 }", "'nope' - at `$.rules[0]`"),
    ("a_bound_of_nobody", "[[rules]]\nmost = { nope = 1 }", "'nope' - at `$.rules[0]`"),
    ("a_bound_of_less_than_nothing", "[[rules]]\nmost = { max_tokens = -1 }", "max_tokens=-1"),
    ("a_change_to_what_none_can_be", '[[rules]]\nchange = { seed = "x" }', "seed='x': expected"),
    ("a_level_that_is_none", '[[rules]]\nefforts = { hgih = "high" }', "$.rules[0].efforts"),
    (
        "a_price_below_nothing",
        '[[models]]\nid = "large"\nprices = { input = -1 }',
        "`$.models[0].prices.input`",
    ),
    (
        "a_price_of_no_day",
        '[[models]]\nid = "large"\nprices = { cases = [{ since = "yesterday" }] }',
        "`$.models[0].prices.cases[0].since`",
    ),
    ("no_utf_8", "# caf\xe9", "can't decode byte 0xe9"),
    ("a_newer_level", '[provider]\nname = "acme"\napi_level = 99\nnew = 1', "level 99"),
]


@pytest.mark.parametrize(
    ("text", "message"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_broken_catalogue_is_named_with_its_fault(package: Path, text: str, message: str) -> None:
    (package / "models.toml").write_text(text, "latin-1")
    with pytest.raises(PluginError) as caught:
        catalog_of("acme").provider("acme")
    assert message in caught.value.message
    assert "catalogue_of_acme" in caught.value.message


def test_a_catalogue_that_was_written_anew_is_read_anew(package: Path) -> None:
    file = package / "models.toml"
    for second, name in enumerate(("large", "small")):  # as long as one another
        file.write_text(FILE.replace('"large"', f'"{name}"'))
        os.utime(file, (second, second))
        assert [model.id for model in catalog_of("acme").models("acme")] == [name]


def test_rules_of_another_package_are_read_anew_and_those_that_name_each_other_end(
    package: Path, tmp_path: Path
) -> None:
    other = tmp_path / "rules_of_another"
    other.mkdir()
    circle = 'rules_of = ["catalogue_of_acme"]\n'
    texts = ['[[rules]]\nname = "first"\n', circle + '[[rules]]\nname = "later"\n']
    (package / "models.toml").write_text(
        'rules_of = ["rules_of_another"]\n' + FILE + '[[rules]]\nname = "own"\n'
    )
    for text, names in zip(texts, [["first", "own"], ["own", "later"]], strict=True):
        (other / "models.toml").write_text(text)
        assert [rule.name for rule in catalog_of("acme").rules("acme", "large")] == names


# (name, rules of the package, rules of the user's file, the values of `facts` that apply, in order)
RULES: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]], list[int]]] = [
    ("without_names", [{}, {}], [{}], [0, 1, 2]),
    ("of_one_name", [{"name": "a"}, {"name": "b"}], [{"name": "a"}], [2, 1]),
    ("of_the_provider", [{"providers": ["acme"]}, {"providers": ["acme-eu"]}], [], [0]),
    ("that_match", [{"match": "^lar"}, {"match": "^arge"}], [{"match": "ge$"}], [0, 2]),
    ("that_do_not_match", [{"unless": "^lar"}, {"unless": "^arge"}], [{"unless": "x"}], [1, 2]),
    ("that_match_apart", [{"match": "large", "unless": "ge$"}, {"match": "x", "unless": "y"}], [],
     []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("packages", "users", "applied"), [row[1:] for row in RULES], ids=[row[0] for row in RULES]
)
def test_rules_of_a_model_are_those_that_match_and_a_later_one_of_a_name_replaces_an_earlier(
    packages: list[dict[str, Any]],
    users: list[dict[str, Any]],
    applied: list[int],
    package: Path,
    tmp_path: Path,
) -> None:
    tables = [
        "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items())
        for row in [*packages, *users]
    ]
    rows = [f"[[rules]]\n{table}facts = {{ n = {n} }}\n" for n, table in enumerate(tables)]
    file = tmp_path / "mine.toml"
    (package / "models.toml").write_text("".join(rows[: len(packages)]))
    file.write_text("".join(rows[len(packages) :]))
    rules = catalog_of("acme", SWINK_MODELS=str(file)).rules("acme", "large")
    assert [rule.facts["n"] for rule in rules] == applied


def test_what_a_model_brings_is_kept_and_the_rest_is_that_of_the_catalogue(package: Path) -> None:
    catalog = catalog_of("acme")
    (package / "models.toml").write_text(FILE + '[[rules]]\nname = "listed"\n')
    info, rules = ModelInfo("large", "acme", context_window=7), (Rule(name="mine"),)
    for given, window, name in (
        (Model("acme", "large"), 200_000, "listed"),
        (Model("acme", "large", info), 7, "listed"),
        (Model("acme", "large", None, rules), 200_000, "mine"),
        (Model("acme", "large", info, rules), 7, "mine"),
    ):
        model = catalog.resolve(given)
        assert model.info is not None
        assert (model.info.context_window, [rule.name for rule in model.rules]) == (window, [name])


@pytest.mark.parametrize("key", ["", "acme", "other", "both"])
def test_an_id_that_two_providers_list_is_of_the_one_with_a_key(package: Path, key: str) -> None:
    rows = "".join(
        f'[[providers]]\nname = "{name}"\napi_key_env = ["{name.upper()}_KEY"]\n'
        f'[[models]]\nid = "same"\nprovider = "{name}"\n'
        for name in ("acme", "other")
    )
    (package / "models.toml").write_text(rows)
    names = ["acme", "other"] if key == "both" else [key]
    catalog = catalog_of("acme", "other", **{f"{name.upper()}_KEY": "k" for name in names})
    if key in ("acme", "other"):
        assert catalog.resolve("same") == Model(key, "same")
        return
    with pytest.raises(InvalidModel, match="'same' is listed by several providers") as caught:
        catalog.resolve("same")
    assert caught.value.resolution == "Write acme/same or other/same."


@pytest.mark.parametrize("name", ["nobody/large", "acme/\ud800", "nothing"], ids=ascii)
def test_a_name_of_no_model_is_refused(package: Path, name: str) -> None:
    with pytest.raises((InvalidModel, UnknownProvider)) as caught:
        catalog_of("acme").resolve(name)
    assert caught.value.resolution


def test_a_package_without_a_catalogue_knows_nothing(package: Path) -> None:
    (package / "models.toml").unlink()
    catalog = catalog_of("acme")
    assert catalog.provider("acme") is None
    assert catalog.model("acme", "large") is None
    assert catalog.models("acme") == []


@pytest.mark.parametrize("name", ["no_such_package", "", "json"])
def test_a_name_that_is_not_a_package_has_no_catalogue(name: str) -> None:
    assert not package_catalog(name).providers


# (name, usage, prices, cost)
M = 1_000_000
COSTS: list[tuple[str, Usage | None, Prices | None, Cost | None]] = [
    ("nothing_known", None, Prices(1.0), None),
    ("no_prices", Usage(M, M), None, None),
    ("plain", Usage(M, M), Prices(3.0, 15.0), Cost(3.0, 15.0, None, None, 18.0)),
    (
        "cached_parts_are_parts_of_the_input",
        Usage(10 * M, M, 4 * M, 2 * M),
        Prices(3.0, 15.0, 0.3, 3.75),
        Cost(12.0, 15.0, 1.2, 7.5, 35.7),
    ),
    (
        "cached_parts_without_prices_cost_as_input",
        Usage(10 * M, M, 4 * M, 2 * M),
        Prices(3.0, 15.0),
        Cost(12.0, 15.0, 12.0, 6.0, 45.0),
    ),
    ("nothing_cached", Usage(M, M, 0, 0), Prices(3.0, 15.0, 0.3), Cost(3.0, 15.0, 0.0, 0.0, 18.0)),
    ("output_unknown", Usage(M, None), Prices(3.0, 15.0), Cost(3.0)),
    ("input_unknown", Usage(None, M), Prices(3.0, 15.0), Cost(None, 15.0)),
    ("an_output_price_unknown", Usage(M, M), Prices(3.0), Cost(3.0)),
    ("free", Usage(M, M), Prices(0.0, 0.0), Cost(0.0, 0.0, None, None, 0.0)),
    (
        "more_cached_than_there_was_input",
        Usage(M, 0, 2 * M),
        Prices(3.0, 15.0, 0.3),
        Cost(0.0, 0.0, 0.6, None, 0.6),
    ),
]


@pytest.mark.parametrize(
    ("usage", "prices", "cost"), [case[1:] for case in COSTS], ids=[case[0] for case in COSTS]
)
def test_an_answer_is_priced_part_by_part(
    usage: Usage | None, prices: Prices | None, cost: Cost | None
) -> None:
    priced = cost_of(usage, prices)
    if cost is None or priced is None:
        assert priced is cost is None
        return
    for name in ("input", "output", "cache_read", "cache_write", "total"):
        expected: Any = getattr(cost, name)
        value = getattr(priced, name)
        assert value == (None if expected is None else pytest.approx(expected)), name


READS = """
import threading
from swink_core.plugins.package_data import PackageCatalog

FILE = open(0, "rb").read()
barrier = threading.Barrier(6)

def read():
    barrier.wait()
    PackageCatalog.read(FILE, "models.toml")

threads = [threading.Thread(target=read) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_may_read_the_first_file_of_a_process_at_the_same_time() -> None:
    for _ in range(4):  # without a lock, about half of the processes crash
        subprocess.run([sys.executable, "-c", READS], input=FILE.encode(), check=True, timeout=60)
