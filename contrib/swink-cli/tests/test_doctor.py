"""`swink doctor` names what is wrong with a plugin, where it is, and what to do."""

from __future__ import annotations

from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swink_cli.commands.doctor.configuration import unread
from swink_cli.commands.doctor.plugins import TAKEN, Finding, examine
from swink_core import Context, Host, StreamOptions
from swink_core.providers import TUNING, required_features
from swink_test_helpers.installed import LINES_PROVIDER, catalogue, install

PROVIDERS = "swink.providers"
MISSPELT = LINES_PROVIDER + "\n    def classify_errors(self, failure):\n        return None\n"
UNMARKED = "class LinesProvider:\n    def __init__(self, name): pass\n    def stream(self): pass\n"
NAMED = {
    "LinesProvider": "LinesProvider = Watch\n",
    "make": "def LinesProvider():\n    return Watch()\n",
}


class Site:
    """A folder with one distribution, and the findings of `examine` for it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.syspath_prepend(str(folder))

    def add(
        self,
        source: str = LINES_PROVIDER,
        group: str = PROVIDERS,
        rows: tuple[str, ...] = ("lines",),
        package: str = "doctored",
        version: str = "1.0",
    ) -> None:
        files = {f"{package}/__init__.py": source, f"{package}/models.toml": catalogue(*rows)}
        entry = {group: {"lines": f"{package}:LinesProvider"}}
        install(self.folder, "swink-provider-lines", entry, files, version)

    def findings(self) -> list[Finding]:
        found: list[Distribution] = [
            PathDistribution(path) for path in sorted(self.folder.glob("*.dist-info"))
        ]
        points = [
            SimpleNamespace(
                name=point.name, group=point.group, value=point.value, load=point.load, dist=dist
            )
            for dist in found
            for point in dist.entry_points
            if point.group in (PROVIDERS, "swink.plugins")
        ]
        return examine(Host(entry_points=points, environ={}), found)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_nothing_is_found_of_a_sound_plugin(site: Site) -> None:
    site.add(package="doctored_sound")

    assert site.findings() == []


@pytest.mark.parametrize(
    "group",
    ["swink.provider", "swink-providers", "swink_plugins", "Swink.Providers", "swink.comand"],
)
def test_an_entry_point_of_a_misspelt_group_is_found(site: Site, group: str) -> None:
    site.add(group=group, package="doctored_group")

    [found] = site.findings()

    assert found.where == "lines (swink-provider-lines 1.0)"
    assert f'"{group}", which swink does not read' in found.what
    assert '[project.entry-points."swink.' in found.advice


def test_entry_point_groups_of_other_projects_are_ignored(site: Site) -> None:
    for version, group in enumerate(("console_scripts", "swing.providers.of_music", "pytest11")):
        site.add(group=group, package="doctored_other", version=str(version))

    assert [f for f in site.findings() if "group" in f.what] == []


def test_a_row_of_another_name_is_found(site: Site) -> None:
    site.add(rows=("line",), package="doctored_row")

    [found] = site.findings()

    assert found.where == "models.toml of doctored_row"
    assert found.what == 'the provider "lines" has no row; it has line'


def test_a_row_without_an_entry_point_is_found(site: Site) -> None:
    site.add(rows=("lines", "other"), package="doctored_rows")

    [found] = site.findings()

    assert found.what == 'the provider "other" has no entry point, so no model can use it'


def test_a_hook_without_its_mark_is_found_with_its_line(site: Site) -> None:
    site.add(UNMARKED, package="doctored_hook")

    [found] = site.findings()

    assert found.where.endswith("doctored_hook/__init__.py:3")
    assert found.what == "stream has no @hookimpl, so it is never called"


def test_a_method_that_overrides_nothing_is_found(site: Site) -> None:
    site.add(MISSPELT, package="doctored_override")

    [found] = site.findings()

    assert found.what == "LinesProvider.classify_errors overrides nothing"
    assert "classify_error" in found.advice


@pytest.mark.parametrize("entry", ["LinesProvider", "make"])
@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("on_event", "on_event has no @hookimpl, so it is never called"),
        ("on_events", "Watch.on_events overrides nothing"),
    ],
)
def test_an_observer_that_observes_nothing_is_found(
    site: Site, entry: str, method: str, what: str
) -> None:
    watch = f"class Watch:\n    def {method}(self, event):\n        pass\n\n"
    package = f"doctored_{entry.lower()}_{method}"
    site.add(watch + NAMED[entry], "swink.plugins", (), package)

    [found] = [found for found in site.findings() if "models.toml" not in found.where]

    assert found.where.endswith(f"{package}/__init__.py:2")
    assert found.what == what


def test_a_plugin_that_is_not_configured_is_sound(site: Site) -> None:
    site.add("def LinesProvider():\n    return None\n", "swink.plugins", (), "doctored_unset")

    assert site.findings() == []


WRONGLY_SET = """from swink_core import InvalidOption
class Watch:
    def __init__(self):
        raise InvalidOption("DOCTORED is 'x'", resolution="Make it a port.")
"""


@pytest.mark.parametrize("made", NAMED)
def test_an_invalid_setting_is_reported_with_the_plugins_message(site: Site, made: str) -> None:
    package = f"doctored_set_{made.lower()}"
    site.add(WRONGLY_SET + NAMED[made], "swink.plugins", (), package)

    [found] = site.findings()
    assert (found.what, found.advice) == ("DOCTORED is 'x'", "Make it a port.")


# (what a class says that it takes, what is wrong, what to write)
WORDS = [
    ('knobs = {"max_token": "max_tokens"}', 'knobs has "max_token"', 'Write "max_tokens".'),
    (
        'features = frozenset({"tools", "vision"})',
        'features has "vision"',
        "There are assistant_audio, ",
    ),
]


@pytest.mark.parametrize(("said", "what", "advice"), WORDS, ids=[said for said, *_ in WORDS])
def test_an_unknown_capability_of_a_provider_is_found(
    site: Site, said: str, what: str, advice: str
) -> None:
    package = f"doctored_{said.partition(' ')[0]}"
    site.add(f"{LINES_PROVIDER}\n    {said}\n", package=package)

    [found] = site.findings()

    assert found.what == f"LinesProvider.{what}, which is unknown"
    assert found.advice.startswith(advice)


def test_every_option_that_the_core_may_leave_out_is_a_word_to_say() -> None:
    assert {*TUNING} <= {*TAKEN["knobs"]}
    options = StreamOptions(response_format="json", stop=["x"], tool_choice="required")
    assert required_features(Context.of("Hi"), options) <= {*TAKEN["features"]}


def test_an_install_whose_module_is_gone_is_found(site: Site) -> None:
    site.add(package="doctored_gone")
    for path in (site.folder / "doctored_gone").iterdir():
        path.unlink()
    (site.folder / "doctored_gone").rmdir()

    assert "refers to the module doctored_gone, which does not exist" in " ".join(
        finding.what for finding in site.findings()
    )


def test_an_install_in_two_versions_is_found(site: Site) -> None:
    site.add(package="doctored_twice")
    site.add(package="doctored_twice", version="2.0")

    assert "versions 1.0 and 2.0 are both installed, and only one is used" in [
        finding.what for finding in site.findings()
    ]


def test_shared_plugins_of_two_distributions_with_one_name_are_found(site: Site) -> None:
    for name in ("one", "two"):
        files = {f"watch_{name}.py": "class Watch:\n    pass\n"}
        points = {"swink.plugins": {"watch": f"watch_{name}:Watch"}}
        install(site.folder, f"swink-watch-{name}", points, files)

    assert [finding for finding in site.findings() if finding.where == "watch"] == [
        Finding(
            "watch",
            "swink-watch-one 1.0 and swink-watch-two 1.0 have a plugin of this name, and each "
            "processes every call",
            "Uninstall all but one of them.",
        )
    ]


@pytest.mark.parametrize("variable", ["SWINK_PLUGINS", "SWINK_DISABLE_PLUGINS"])
def test_names_of_plugins_that_are_not_installed_are_found(swink: Any, variable: str) -> None:
    done = swink("doctor", **{variable: "echoo, openai"})

    assert done.returncode == 1
    said = f'{variable}\n  no installed plugin is named "echoo"\n  Write "echo".\n'
    assert said in done.stdout
    assert 'named "openai"' not in done.stdout


ECHO = '[[models]]\nid = "m"\nprovider = "echo"\n'

# (a file that SWINK_MODELS names, or what it holds; what is wrong; what to do)
MODELS_FILES = [
    ("gone", None, "No such file", "Correct or unset SWINK_MODELS."),
    ("broken", "models = [", "models.toml: ", "Correct the file."),
    (
        "of_nobody",
        '[[models]]\nid = "m"',
        'the model "m" belongs to no installed provider',
        '"NAME"',
    ),
    ("misspelt", '[[models]]\nid = "m"\nprovider = "echoo"', 'the model "m"', '"echo"'),
    (
        "capability",
        f'{ECHO}capabilities = ["tolls"]',
        'm" has "tolls", which is unknown',
        '"tools".',
    ),
    (
        "takes",
        "[[rules]]\ntakes = { tol = true }",
        'has "tol" in `takes`, which is unknown; did you mean "tools"?',
        "Correct the file.",
    ),
    (
        "code",
        '[provider]\nname = "echo"\nwire_format = "other"',
        'the wire_format of the provider "echo" is ',
        "Remove wire_format",
    ),
    ("provider", '[provider]\nname = "nope"', 'the provider "nope" belongs to no', '"NAME"'),
]


@pytest.mark.parametrize(
    ("rows", "what", "advice"), [row[1:] for row in MODELS_FILES], ids=[r[0] for r in MODELS_FILES]
)
def test_problems_of_the_users_models_file_are_found(
    swink: Any, tmp_path: Path, rows: str | None, what: str, advice: str
) -> None:
    file = tmp_path / "models.toml"
    if rows is not None:
        file.write_text(rows)

    done = swink("doctor", SWINK_MODELS=str(file))

    assert done.returncode == 1
    [where, found, meant, *_] = done.stdout.splitlines()
    assert where.startswith("SWINK_MODELS")
    assert what in found
    assert advice in meant


def test_models_of_a_provider_that_is_left_out_are_in_order(swink: Any, tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text('[[models]]\nid = "m"\nprovider = "echo"')

    done = swink("doctor", SWINK_MODELS=str(file), SWINK_PLUGINS="openai")

    assert done.returncode == 0, done.stdout


def test_a_wrong_setting_of_a_plugin_that_is_a_class_is_found(swink: Any, tmp_path: Path) -> None:
    done = swink("doctor", SWINK_RECORD=str(tmp_path / "calls.sqlite"), SWINK_RECORD_KEEP="lots")

    assert done.returncode == 1
    [where, what, advice, *_] = done.stdout.splitlines()
    assert where.startswith("recorder (swink-recorder ")
    assert what == "  invalid limit 'lots'"
    assert advice == "  Write days, megabytes and a number of calls: 30d 500MB 10000"
    assert not [*tmp_path.glob("calls*")]


# (what is set, what reads it, what to do about it)
VARIABLES = [
    ("SWINK_LINES", "", "Install the package that reads it, or unset it."),
    (
        "SWINK_LINES",
        "LINES_LOG = 'SWINK_LINES_LOG'",
        "Install the package that reads it, or unset it.",
    ),
    (
        "SWINK_LINES_LOGS",
        "LINES_LOG = 'SWINK_LINES_LOG'",
        "If you meant SWINK_LINES_LOG, set that.",
    ),
    ("SWINK_MODLES", "", "If you meant SWINK_MODELS, set that."),
    ("SWINK_LINES", "LINES = 'SWINK_LINES'", None),
    ("SWINK_MODEL", "", None),
    ("SWINKER", "", None),
    ("SWINK_GATEWAY_SERVICE_HOST", "", None),
    ("SWINK_SERVICE_PORT_HTTP", "", None),
    ("SWINK_GATEWAY_PORT_8080_TCP_ADDR", "", None),
]


@pytest.mark.parametrize(("name", "source", "advice"), VARIABLES)
def test_a_variable_that_nothing_installed_reads_is_found(
    site: Site, name: str, source: str, advice: str | None
) -> None:
    site.add(source, package=f"doctored_variable_{VARIABLES.index((name, source, advice))}")
    installed = [PathDistribution(path) for path in site.folder.glob("*.dist-info")]

    found = unread({name: "1", "PATH": ""}, installed)

    what = "no installed package reads this variable"
    assert found == ([Finding(name, what, advice)] if advice else [])


def test_the_command_reports_an_unknown_variable(swink: Any) -> None:
    done = swink("doctor", SWINK_OF_NOBODY="1")

    assert done.returncode == 1
    assert done.stdout.startswith("SWINK_OF_NOBODY\n  no installed package reads")


LEFT_OUT = "Installed plugins are disabled by "


@pytest.mark.parametrize(
    "variables",
    [{}, {"SWINK_PLUGINS": "openai"}, {"SWINK_DISABLE_PLUGINS": "echo"}],
    ids=["all", "one", "all_but_one"],
)
def test_the_command_reports_no_problems_and_disabled_plugins(
    swink: Any, variables: dict[str, str]
) -> None:
    done = swink("doctor", **variables)

    assert done.returncode == 0, done.stdout
    assert "No problems found" in done.stdout
    said = [f"{LEFT_OUT}{name}={value}" for name, value in variables.items()]
    assert [line for line in done.stdout.splitlines() if LEFT_OUT in line] == said


# what is wrong outside of plugins: a variable, where it is told, and with what advice
ELSEWHERE = [
    ({"SWINK_MODELS": "/nowhere/own.toml"}, "SWINK_MODELS\n  /nowhere/own.toml: ", "unset"),
    ({"SWINK_RECORD": "/nowhere", "SWINK_RECORD_KEEP": "so"}, "recorder (", "Write days"),
]


@pytest.mark.parametrize(("variables", "where", "advice"), ELSEWHERE)
def test_the_command_checks_variables(
    swink: Any, variables: dict[str, str], where: str, advice: str
) -> None:
    done = swink("doctor", **variables)

    assert (done.returncode, done.stdout.count("\n\n")) == (1, 1)
    assert done.stdout.startswith(where)
    assert advice in done.stdout.splitlines()[2]


@pytest.mark.parametrize(
    "line", [["plugins"], ["providers"], ["ask", "Hi"]], ids=["plugins", "providers", "ask"]
)
def test_a_disabled_plugin_is_not_reported_as_missing(swink: Any, line: list[str]) -> None:
    done = swink(*line, SWINK_PLUGINS="ecoh")

    said = done.stdout + done.stderr
    assert f"{LEFT_OUT}SWINK_PLUGINS=ecoh" in said
    assert "pip install" not in said


def observer(definition: str) -> str:
    return (
        "import swink_core\n\nclass LinesProvider:\n    @swink_core.hookimpl\n"
        f"    {definition}\n        pass\n"
    )


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ("def on_event(self, evt):", "does not match the hook specifications"),
        ("async def on_event(self, event):", "as a coroutine function"),
    ],
    ids=["wrong signature", "async"],
)
def test_an_observer_that_cannot_be_bound_is_found(site: Site, definition: str, words: str) -> None:
    package = f"doctored_observer_{len(definition)}"
    site.add(observer(definition), group="swink.plugins", package=package)

    [found] = site.findings()

    assert found.where == "lines (swink-provider-lines 1.0)"
    assert words in found.what


@pytest.mark.parametrize("name", ["acme/x", "acme corp"])
def test_a_name_with_a_slash_or_space_is_found(site: Site, name: str) -> None:
    package = f"doctored_{len(name)}"
    files = {f"{package}/__init__.py": LINES_PROVIDER, f"{package}/models.toml": catalogue(name)}
    entry = {PROVIDERS: {name: f"{package}:LinesProvider"}}
    install(site.folder, "swink-provider-lines", entry, files, "1.0")

    [found] = site.findings()

    assert found.what.startswith(f'its name "{name}" contains a slash or a space')


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ("swink-provider-lines>=2", "swink-provider-lines 1.0 is installed"),
        ("no-such-sdk", "which is not installed"),
        ("no-such-sdk; python_version < '3'", None),
        ("no-such-sdk; extra == 'sdk'", None),
        ("swink-provider-lines>=1", None),
    ],
)
def test_an_unmet_requirement_is_found(site: Site, requirement: str, words: str | None) -> None:
    site.add(package="doctored_requirement")
    [metadata] = site.folder.glob("*.dist-info/METADATA")
    metadata.write_text(f"{metadata.read_text().rstrip()}\nRequires-Dist: {requirement}\n")

    found = site.findings()

    assert [finding.what for finding in found] == (
        [f"it requires {requirement}, but {words}" if "1.0" in words else
         f"it requires {requirement}, {words}"] if words else []
    )  # fmt: skip
