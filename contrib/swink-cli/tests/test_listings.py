"""`swink providers`, `models` and `plugins`, with distributions that the test installs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from screen import seen

from swink_test_helpers.installed import LINES_PROVIDER, catalogue, install

OBSERVER = "class Observer:\n    pass\n"


SETTINGS = '{ api = ["chat", "answers"], region = "string" }'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two sound providers, a broken one, one whose catalogue is broken, and two plugins."""
    folder = tmp_path / "site"
    install(
        folder,
        "swink-provider-lines",
        {"swink.providers": {"bravo": "lines_provider:LinesProvider",
                             "alpha": "lines_provider:LinesProvider"}},
        {"lines_provider/__init__.py": LINES_PROVIDER,
         "lines_provider/models.toml": catalogue("bravo", settings=SETTINGS) + catalogue("alpha")},
    )  # fmt: skip
    install(
        folder,
        "swink-provider-broken",
        {"swink.providers": {"broken": "broken_provider:Provider"}},
        {"broken_provider/__init__.py": "raise RuntimeError('no such luck')",
         "broken_provider/models.toml": catalogue("broken")},
    )  # fmt: skip
    install(
        folder,
        "swink-provider-garbled",
        {"swink.providers": {"garbled": "garbled_provider:Provider"}},
        {"garbled_provider/__init__.py": "", "garbled_provider/models.toml": "[provider"},
    )
    install(
        folder,
        "swink-observer",
        {"swink.plugins": {"sound": "observer:Observer", "absent": "no_such_module:Thing"}},
        {"observer.py": OBSERVER},
    )
    return folder


@pytest.fixture
def listed(swink: Any, site: Path) -> Any:
    """Runs a command with the site installed; IMPORT_MARK appears if a plugin is imported."""
    mark = site / "imported"

    def run(*arguments: str, **more: str) -> Any:
        done = swink(*arguments, PYTHONPATH=str(site), IMPORT_MARK=str(mark), **more)
        done.imported = mark.exists()
        return done

    return run


def rows(text: str) -> list[str]:
    """Lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


# -- providers -----------------------------------------------------------------------------------


def test_providers_are_listed_below_their_distribution(listed: Any) -> None:
    done = listed("providers", ALPHA_API_KEY="sk-0123456789")
    lines = rows(done.stdout)
    start = lines.index("swink-provider-lines 1.0")
    assert lines[start + 1 : start + 3] == [
        "alpha Alpha Inc. lines ALPHA_API_KEY is set",
        "bravo Bravo Inc. lines needs BRAVO_API_KEY",
    ]
    assert "sk-0123456789" not in done.stdout


def test_a_broken_provider_does_not_break_listings(listed: Any) -> None:
    done = listed("providers")
    assert (done.returncode, done.stderr) == (0, "")
    lines = rows(done.stdout)
    assert "broken Broken Inc. lines needs BROKEN_API_KEY" in lines
    assert any(line.startswith("garbled - broken: garbled_provider/models.toml:") for line in lines)
    assert listed("--version").returncode == 0


def test_providers_as_json_say_everything(listed: Any) -> None:
    done = listed("providers", "--json")
    alpha = next(row for row in json.loads(done.stdout) if row["name"] == "alpha")
    assert alpha == {
        "name": "alpha",
        "title": "Alpha Inc.",
        "wire_format": "lines",
        "version": "1.0",
        "distribution": "swink-provider-lines",
        "base_url": "http://alpha.invalid",
        "api_key_env": ["ALPHA_API_KEY"],
        "base_url_env": [],
        "required_env": [],
        "auth": "key",
        "settings": {},
        "ready": False,
        "docs": None,
        "portal": None,
        "error": None,
    }


def test_a_single_provider_is_described_with_its_settings(listed: Any) -> None:
    done = listed("providers", "bravo")
    lines = rows(done.stdout)
    assert lines[:6] == [
        "Bravo Inc. (bravo)",
        "state needs BRAVO_API_KEY",
        "key BRAVO_API_KEY",
        "address http://bravo.invalid",
        "wire format lines",
        "package swink-provider-lines 1.0",
    ]
    assert lines[-3:] == [
        "Settings (-o settings.NAME=VALUE)",
        "api chat or answers",
        "region string",
    ]
    assert "BRAVO_API_KEY (set)" in listed("providers", "bravo", BRAVO_API_KEY="sk-01234567").stdout
    [bravo] = json.loads(listed("providers", "bravo", "--json").stdout)
    assert bravo["settings"] == {"api": ["chat", "answers"], "region": "string"}


def test_required_settings_besides_the_key_are_listed(listed: Any, site: Path) -> None:
    row = catalogue("needy").replace("[[models]]", 'required_env = ["NEEDY_PROJECT"]\n[[models]]')
    install(
        site,
        "swink-provider-needy",
        {"swink.providers": {"needy": "needy_provider:Provider"}},
        {"needy_provider/__init__.py": "", "needy_provider/models.toml": row},
    )

    listing, told = listed("providers").stdout, rows(listed("providers", "needy").stdout)

    assert " needs NEEDY_API_KEY and needs NEEDY_PROJECT\n" in listing
    assert "needs NEEDY_PROJECT" in told
    held = rows(listed("providers", "needy", NEEDY_PROJECT="p").stdout)
    assert "state needs NEEDY_API_KEY" in held


@pytest.mark.parametrize("level", [0, 2])
def test_a_provider_of_another_api_level_is_broken(listed: Any, site: Path, level: int) -> None:
    row = catalogue("older").replace("[[models]]", f"api_level = {level}\n[[models]]")
    install(
        site,
        "swink-provider-older",
        {"swink.providers": {"older": "older_provider:Provider"}},
        {"older_provider/__init__.py": "", "older_provider/models.toml": row},
    )
    said = f"is written for plugin API level {level};"
    assert f'broken: provider "older" (swink-provider-older) {said}' in listed("providers").stdout
    [older] = json.loads(listed("providers", "older", "--json").stdout)
    assert (older["ready"], older["title"]) == (False, "Older Inc.")


def test_the_help_of_plugins_says_what_is_not_in_the_list(listed: Any) -> None:
    said = " ".join(listed("plugins", "--help").stdout.split())
    assert "Commands (`swink --help`), tools (`swink tools`) and guards of the gateway" in said


RULES = """
[[models]]
id = "small"
provider = "bravo"
capabilities = ["tools", "thinking"]
[[rules]]
name = "large"
match = "large"
takes = { temperature = [1], top_p = false }
[[rules]]
name = "small"
match = "small"
efforts = { low = "low", high = "high" }
"""


def test_a_provider_says_which_models_take_what(listed: Any, site: Path) -> None:
    catalog = site / "lines_provider" / "models.toml"
    catalog.write_text(catalog.read_text() + RULES)
    lines = rows(listed("providers", "bravo").stdout)
    start = lines.index("Options of 2 listed models")
    assert lines[start + 1 : start + 3] == ["temperature only 1: large; the others", "top_p small"]
    assert "max_tokens all" in lines
    content = lines.index("Content, and features that a call may need")
    assert "tools all" in lines[content:]
    assert lines[content:][-4].startswith("rejected before the request images, documents, audio")


def test_a_broken_provider_shows_its_catalogue(listed: Any) -> None:
    done = listed("providers", "broken")
    lines = rows(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert "state needs BROKEN_API_KEY" in lines
    assert "no such luck" in lines[lines.index("What it takes") + 1]


def test_a_provider_that_is_not_installed_is_unknown(listed: Any) -> None:
    done = listed("providers", "brave")
    assert done.returncode != 0
    assert "did you mean" in done.stderr


@pytest.mark.parametrize("command", ["providers", "models", "plugins"])
def test_listing_imports_no_plugin(listed: Any, command: str) -> None:
    done = listed(command)
    assert (done.returncode, done.imported) == (0, False)


def test_two_distributions_that_claim_a_name_are_both_named(listed: Any, site: Path) -> None:
    install(
        site,
        "swink-provider-rival",
        {"swink.providers": {"alpha": "rival:Provider"}},
        {"rival.py": ""},
    )
    done = listed("providers")
    claim = "two distributions claim the provider"
    assert sum(claim in line for line in done.stdout.splitlines()) == 2
    assert "swink-provider-lines 1.0" in done.stdout
    assert "swink-provider-rival 1.0" in done.stdout


def test_a_block_list_hides_a_provider(listed: Any) -> None:
    assert "alpha" not in listed("providers", SWINK_DISABLE_PLUGINS="alpha").stdout


# -- models --------------------------------------------------------------------------------------


def test_models_have_limits_prices_features_and_the_age_of_these(listed: Any) -> None:
    done = listed("models", "alpha")
    assert rows(done.stdout) == [
        "alpha CONTEXT OUTPUT $ IN $ OUT AS OF FEATURES",
        "large 200k 8k 3 15 2020-01-01* tools",
    ]
    assert "* older than 180 days" in done.stderr


def test_models_as_json_say_everything(listed: Any) -> None:
    assert json.loads(listed("models", "alpha", "--json").stdout) == [
        {
            "id": "large",
            "provider": "alpha",
            "name": None,
            "context_window": 200000,
            "max_output": 8192,
            "capabilities": ["tools"],
            "status": "active",
            "prices": {"input": 3.0, "output": 15.0, "cache_read": None, "cache_write": None},
            "as_of": "2020-01-01",
            "stale": True,
        }
    ]


def test_a_broken_catalogue_is_skipped_with_a_notice(listed: Any) -> None:
    done = listed("models")
    assert done.returncode == 0
    assert "notice: garbled is skipped: garbled_provider/models.toml" in done.stderr
    assert "large" in done.stdout


def test_a_users_own_file_adds_models(listed: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[[models]]\nid = "tuned"\nprovider = "alpha"\n')
    done = listed("models", "alpha", SWINK_MODELS=str(tmp_path / "mine.toml"))
    assert "tuned - - - - - -" in rows(done.stdout)


TELLING = """
from lines_provider import LinesProvider
from swink_core import Failure, ModelInfo, ProviderFailure

class Provider(LinesProvider):
    async def list_models(self, options, http):
        if self.name == "silent":
            raise ProviderFailure(Failure("connect", message="no such luck"))
        limits = {"context_window": 4000, "status": "pulled"}
        return [ModelInfo(id, self.name, **limits) for id in ("large", "tuned")]
"""


@pytest.fixture
def telling(swink: Any, tmp_path: Path) -> Any:
    """Run a command with two providers whose servers list models."""
    tables = [
        catalogue(name).replace("settings = {}\n", "dialect = { lists_models = true }\n")
        for name in ("telling", "silent")
    ]
    install(
        tmp_path,
        "swink-provider-telling",
        {"swink.providers": dict.fromkeys(("telling", "silent"), "telling_provider:Provider")},
        {"telling_provider/__init__.py": TELLING, "telling_provider/models.toml": "".join(tables),
         "lines_provider/__init__.py": LINES_PROVIDER},
    )  # fmt: skip
    return lambda *arguments: swink(*arguments, PYTHONPATH=str(tmp_path))


def test_models_of_a_server_are_listed(telling: Any) -> None:
    done = telling("models", "telling")
    lines = rows(done.stdout)
    start = lines.index("telling CONTEXT OUTPUT $ IN $ OUT AS OF FEATURES")
    assert lines[start + 1 : start + 3] == [
        "large 4k - - - - [pulled]",
        "tuned 4k - - - - [pulled]",
    ]
    assert "silent" not in done.stderr


def test_a_list_of_all_models_names_servers_that_can_list_theirs(telling: Any) -> None:
    done = telling("models")
    assert "tuned" not in done.stdout
    assert "swink models telling lists the models of its server" in done.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["-q", "ALPHA"], ["alpha/large"]),
        (["-q", "large", "-q", "tools"], ["alpha/large", "bravo/large", "broken/large"]),
        (["lar"], ["alpha/large", "bravo/large", "broken/large"]),
        (["alpha", "-q", "bravo"], []),
        (["bravo", "-q", "a"], ["bravo/large"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_models_are_searched(listed: Any, line: list[str], expected: list[str]) -> None:
    allowed = "alpha,bravo,broken"
    done = listed("models", *line, "--json", SWINK_PLUGINS=allowed)
    assert sorted(f"{row['provider']}/{row['id']}" for row in json.loads(done.stdout)) == expected
    assert (done.returncode, done.imported, done.stderr) == (0, False, "")
    told = listed("models", *line, SWINK_PLUGINS=allowed).stdout
    assert ("No listed model" in told) == (not expected)


@pytest.mark.parametrize(
    ("said", "meant"),
    [("model", "models"), ("provider", "providers"), ("plugin", "plugins"), ("aliases", "alias")],
)
def test_singular_and_plural_are_the_same_command(swink: Any, said: str, meant: str) -> None:
    assert swink(said).stdout == swink(meant).stdout != ""


def test_a_server_that_does_not_answer_is_reported_if_it_was_named(telling: Any) -> None:
    done = telling("models", "silent")
    assert rows(done.stdout)[1] == "large 200k 8k 3 15 2020-01-01* tools"
    assert "notice: the server of silent did not list its models: no such luck" in done.stderr


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (100, ["large  200k     8k      3     15     2020-01-01*  tools"]),
        (60, ["alpha  CONTEXT  $ IN  $ OUT  FEATURES", "large  200k     3     15     tools"]),
        (30, ["alpha  CONTEXT  $ IN  $ OUT", "large  200k     3     15"]),
        (20, ["alpha  $ IN  $ OUT", "large  3     15"]),
        (14, ["alpha  $ OUT", "large  15"]),
    ],
)
def test_a_row_keeps_within_the_terminal(
    start: Any, site: Path, columns: int, expected: list[str]
) -> None:
    running = start("models", "alpha", size=(columns, 24), PYTHONPATH=str(site), NO_COLOR="1")
    assert running.finish() == 0
    lines = seen(running.output, columns)
    assert lines[2 - len(expected) : 2] == expected


MORE = """
[[models]]
id = "eye"
provider = "alpha"
capabilities = ["tools", "images"]
prices = { input = 0.2, output = 0.8 }
[[models]]
id = "eye"
provider = "bravo"
capabilities = ["images"]
prices = { input = 0.1, output = 1.0 }
[[models]]
id = "gone"
provider = "bravo"
capabilities = ["tools", "images"]
prices = { input = 0.1, output = 0.1 }
[[rules]]
match = "gone"
retires = "2020-01-01"
[[models]]
id = "priceless"
provider = "bravo"
capabilities = ["tools"]
"""

# what is looked for, and the models in order
FILTERED: list[tuple[list[str], list[str]]] = [
    (["--vision"], ["alpha/eye", "bravo/eye"]),
    (["--tools", "--vision"], ["alpha/eye"]),
    (["--under", "1.0"], ["alpha/eye", "bravo/eye"]),
    (["--under", "0.9"], ["alpha/eye"]),
    (["--tools"], ["alpha/eye", "alpha/large", "bravo/large", "bravo/priceless"]),
    (["bravo", "--vision"], ["bravo/eye"]),
    (["--sort", "price", "-q", "bravo"], ["gone", "eye", "large", "priceless"]),
    (["--sort", "name", "-q", "bravo"], ["eye", "gone", "large", "priceless"]),
    (["--vision", "--under", "0.01"], []),
]


@pytest.fixture
def stocked(listed: Any, site: Path) -> Any:
    """Runs a command with two providers of several models."""
    catalog = site / "lines_provider" / "models.toml"
    catalog.write_text(catalog.read_text() + MORE)
    return lambda *line: listed(*line, SWINK_PLUGINS="alpha,bravo,echo")


@pytest.mark.parametrize(("line", "expected"), FILTERED, ids=lambda value: " ".join(value))
def test_models_are_filtered_and_sorted(stocked: Any, line: list[str], expected: list[str]) -> None:
    names = [name if "/" in name else f"bravo/{name}" for name in expected]
    data = json.loads(stocked("models", *line, "--json").stdout)
    assert [f"{row['provider']}/{row['id']}" for row in data] == names
    done = stocked("models", *line)
    assert (done.returncode, done.imported) == (0, False)
    shown = [line.split()[0] for line in rows(done.stdout)[1:]]
    assert shown == names or (not names and "No listed model matches all filters." in done.stdout)


@pytest.mark.parametrize(
    ("options", "lines", "folded"),
    [([], 10, True), ([], 60, False), (["--all"], 10, False), (["alpha"], 4, False)],
    ids=["long", "short", "all", "one provider"],
)
@pytest.mark.usefixtures("stocked")
def test_a_long_list_of_several_providers_is_folded_on_a_terminal(
    start: Any, site: Path, options: list[str], lines: int, folded: bool
) -> None:
    given = {"PYTHONPATH": str(site), "SWINK_PLUGINS": "alpha,bravo", "NO_COLOR": "1"}
    running = start("models", *options, size=(80, lines), PAGER="cat", **given)
    assert running.finish() == 0
    shown = rows("\n".join(seen(running.output, 80)))
    assert ("bravo 4 1–15 eye" in shown) is folded
    assert ("eye - - 0.2 0.8 - tools images" in shown) is not folded


@pytest.mark.parametrize(("lines", "paged"), [(4, True), (60, False)])
@pytest.mark.usefixtures("stocked")
def test_a_list_longer_than_the_terminal_goes_through_the_pager(
    start: Any, site: Path, lines: int, paged: bool
) -> None:
    given = {"PYTHONPATH": str(site), "SWINK_PLUGINS": "alpha,bravo", "PAGER": "tr a-z A-Z"}
    running = start("models", "bravo", size=(80, lines), **given)
    assert running.finish() == 0
    assert ("PRICELESS" in "\n".join(seen(running.output, 80))) is paged


# -- plugins -------------------------------------------------------------------------------------


def test_plugins_are_listed_with_what_they_are(listed: Any) -> None:
    lines = rows(listed("plugins").stdout)
    assert lines[0] == "NAME GROUP DISTRIBUTION VERSION"
    assert "sound swink.plugins swink-observer 1.0" in lines
    assert "broken swink.providers swink-provider-broken 1.0" in lines


def test_loading_says_what_is_wrong_with_which(listed: Any) -> None:
    done = listed("plugins", "--load")
    lines = rows(done.stdout)
    assert done.returncode == 1
    assert "sound swink.plugins swink-observer 1.0 loads" in lines
    assert "alpha swink.providers swink-provider-lines 1.0 loads" in lines
    broken = {line.split()[0]: line for line in lines if " broken: " in line}
    assert "RuntimeError: no such luck" in broken["broken"]
    assert "garbled_provider/models.toml: " in broken["garbled"]
    assert "No module named 'no_such_module'" in broken["absent"]
    assert "Traceback" not in done.stdout + done.stderr


def test_a_broken_shared_plugin_is_named_and_the_answer_comes(listed: Any) -> None:
    done = listed("ask", "-m", "echo/echo", "Hi")
    assert (done.returncode, done.stdout) == (0, "Hi\n")
    assert "notice: plugin absent (swink-observer) is disabled: ModuleNotFoundError" in done.stderr


def test_a_broken_provider_is_an_error_when_it_is_asked(listed: Any) -> None:
    done = listed("ask", "-m", "broken/large", "Hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: Broken plugin\n")
    assert "no such luck" in done.stderr
    assert "Reinstall or upgrade swink-provider-broken" in done.stderr


# -- completion ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("swink models al", ["alpha"]),
        ("swink ask -m br", ["bravo/", "broken/"]),
        ("swink ask -m alp", ["alpha/large"]),
        ("swink ask -m alpha/", ["alpha/large"]),
        ("swink -m alpha/", ["alpha/large"]),
        ("swink ask -m lar", ["large"]),
        ("swink ask -m nobody/", []),
        ("swink pl", ["plugins"]),
    ],
)
def test_shells_complete_providers_and_models(listed: Any, words: str, expected: list[str]) -> None:
    done = listed(
        _SWINK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1)
    )
    assert [line.partition(",")[2] for line in done.stdout.splitlines() if line] == expected
    assert (done.imported, done.stderr) == (False, "")
