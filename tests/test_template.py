"""Every variant of the template, rendered: its files, its form, and the suite that comes with it.

The clean environment is a new venv into which pip installs the rendered package; its dependencies
come from this interpreter's environment, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import swink_core as swink
from swink_core import Host
from swink_core.providers import HTTPRequest

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "cookiecutter-provider"

VARIANTS = {
    f"{kind}-{auth}": (kind, auth)
    for kind in ("openai", "sse", "ndjson")
    for auth in ("bearer", "header", "none")
} | {kind: (kind, "bearer") for kind in ("stream", "observer", "wrapper")}

SUITES = (
    *("sse-bearer", "sse-header", "ndjson-none", "openai-bearer", "openai-header"),
    *("stream", "observer", "wrapper"),
)
"""Variants whose suites run: every line that the template writes is in one of them."""

SHARED_FILES = """
.github/workflows/ci.yml .gitignore CHANGELOG.md LICENSE README.md pyproject.toml
src/{package}/__init__.py src/{package}/plugin.py src/{package}/py.typed tests/test_{slug}.py
"""

RECORDING_FILES = """
src/{package}/recordings/hello/body.{body} src/{package}/recordings/hello/message.json
src/{package}/recordings/hello/recording.json
src/{package}/recordings/rate-limit/body.{body} src/{package}/recordings/rate-limit/message.json
src/{package}/recordings/rate-limit/recording.json
"""

FILES = {
    "openai": SHARED_FILES + "src/{package}/models.toml" + RECORDING_FILES,
    "sse": SHARED_FILES + "src/{package}/models.toml" + RECORDING_FILES,
    "ndjson": SHARED_FILES + "src/{package}/models.toml" + RECORDING_FILES,
    "stream": SHARED_FILES + "src/{package}/models.toml",
    "observer": SHARED_FILES,
    "wrapper": SHARED_FILES,
}

SECONDS = 60.0
"""From `swink new` to a passing kit and a demo; issue and documentation promise a minute. It is
measured in the processor's time, which other work on the machine does not change."""

HANGING_SECONDS = 300.0
"""A command that takes longer hangs. The longest, the suites of eight packages, takes 15 s on an
idle machine, and took more than two minutes on one that ran several suites at a time."""


def _spent() -> float:
    """Return the seconds that finished child processes took of the processor."""
    times = os.times()
    return times.children_user + times.children_system


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    hidden = ("PYTHON", "PYTEST", "SWINK", "ACME")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, "HOME": str(cwd), "NO_PROXY": "*", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANGING_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


BUILDS = """
import os, sys
from hatchling.build import build_editable

_, built, *folders = sys.argv
for folder in folders:
    os.chdir(folder)
    build_editable(built)
"""


class Environment:
    """A new venv with this environment's libraries within reach."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        base = {"base": str(folder), "platbase": str(folder)}
        libraries = Path(sysconfig.get_path("purelib", "venv", vars=base))
        # addsitedir, unlike a plain line, also reads the .pth files of editable installs
        found = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        lines = [f"import site; site.addsitedir({path!r})" for path in sorted(found)]
        (libraries / "libraries.pth").write_text("\n".join(lines) + "\n")

    def install(self, *named: str | Path, cwd: Path) -> None:
        """Installs distributions without a package index."""
        pip = (sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check")
        options = ("-qq", "--no-index", "--no-deps", "--no-build-isolation")
        _run(*pip, "install", *options, *named, cwd=cwd)

    def install_all(self, folders: Iterable[Path], built: Path) -> None:
        """Installs distributions, editable, that one process builds into a folder.

        `pip` starts three for each of them.
        """
        _run(sys.executable, "-c", BUILDS, built, *folders, cwd=built)
        self.install(*built.glob("*.whl"), cwd=built)

    def run(self, *arguments: str | Path, cwd: Path, **environment: str) -> str:
        """Runs a module in the environment."""
        return _run(self.python, "-m", *arguments, cwd=cwd, **environment)


def _render(variant: str, output: Path) -> Path:
    from cookiecutter.main import cookiecutter

    kind, auth = VARIANTS[variant]
    answers = {"name": f"acme-{variant}", "kind": kind, "auth": auth}
    made = cookiecutter(
        str(TEMPLATE),
        no_input=True,
        default_config=True,
        extra_context=answers,
        output_dir=str(output),
    )
    return Path(made)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The folder of every variant."""
    output = tmp_path_factory.mktemp("rendered")
    return {variant: _render(variant, output) for variant in VARIANTS}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The clean environment."""
    return Environment(tmp_path_factory.mktemp("environment"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_has_exactly_its_files(variant: str, rendered: Mapping[str, Path]) -> None:
    folder = rendered[variant]
    kind, _ = VARIANTS[variant]
    slug = f"acme_{variant}".replace("-", "_")
    role = "plugin" if kind in ("observer", "wrapper") else "provider"
    names = FILES[kind].format(
        package=f"swink_{role}_{slug}", slug=slug, body="ndjson" if kind == "ndjson" else "sse"
    )
    assert folder.name == f"swink-{role}-acme-{variant}"
    found = {path.relative_to(folder).as_posix() for path in _files(folder)}
    assert found == set(names.split())


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_of_the_template_is_left_in_a_file(
    variant: str, rendered: Mapping[str, Path]
) -> None:
    for path in _files(rendered[variant]):
        text = path.read_text("utf-8")
        assert "cookiecutter" not in text, path
        assert "{%" not in text, path
        assert not text or text.endswith("\n"), path
        assert "\n\n\n" not in text or path.suffix == ".py", path


@pytest.mark.parametrize("kind", ["sse", "ndjson"])
@pytest.mark.parametrize("auth", ["bearer", "header", "none"])
def test_the_module_of_a_provider_has_fewer_than_sixty_lines(
    kind: str, auth: str, rendered: Mapping[str, Path]
) -> None:
    (module,) = rendered[f"{kind}-{auth}"].glob("src/*/plugin.py")
    assert len(module.read_text("utf-8").splitlines()) < 60


@pytest.mark.parametrize("kind", ["sse", "ndjson"])
def test_a_provider_sends_nothing_empty_and_all_that_is_false(
    kind: str, rendered: Mapping[str, Path]
) -> None:
    (module,) = rendered[f"{kind}-bearer"].glob("src/*/plugin.py")
    made = runpy.run_path(str(module))[f"Acme{kind.title()}Bearer"]("acme")
    model, context = swink.Model("acme", "large"), swink.Context.of("Hi")
    options = swink.StreamOptions(temperature=0, top_p=0.0, base_url="http://acme.test")

    request = made.request(model, made.convert(model, context, options), options)

    sent = msgspec.json.decode(request.body)
    messages = [{"role": "user", "content": "Hi"}]
    tuning = {"temperature": 0, "top_p": 0.0}
    assert sent == {"model": "large", "messages": messages, **tuning}


@pytest.mark.parametrize("kind", ["openai", "sse", "ndjson"])
async def test_a_callers_own_header_with_a_key_takes_the_place_of_the_providers(
    kind: str, rendered: Mapping[str, Path]
) -> None:
    (module,) = rendered[f"{kind}-header"].glob("src/*/plugin.py")
    name = {"openai": "Openai"}.get(kind, kind.title())
    made = runpy.run_path(str(module))[f"Acme{name}Header"]("acme")
    options = swink.StreamOptions(api_key="the provider's")
    for own in ({"X-API-Key": "the caller's"}, {}):
        request = HTTPRequest("http://acme.test", b"", dict(own))
        await made.authorize(request, options, None)
        assert request.headers == (own or {"x-api-key": "the provider's"})


def test_every_variant_is_linted_and_formatted(rendered: Mapping[str, Path]) -> None:
    folders = [*rendered.values()]
    for command in (("check",), ("format", "--check")):
        # ruff applies to each file the configuration of its own package
        ruff = (sys.executable, "-m", "ruff", *command, "--no-cache")
        _run(*ruff, *folders, cwd=folders[0].parent)


WRITES = """
from swink_testing.observers import ObserverConformance

class Diary:
    text = ""

class TestDiary(ObserverConformance):
    observer = Diary

    @staticmethod
    def written(observer: Diary) -> str:
        return observer.text
"""


@pytest.mark.heavy
def test_every_variant_type_checks_strictly(rendered: Mapping[str, Path], tmp_path: Path) -> None:
    folders = [folder / part for folder in rendered.values() for part in ("src", "tests")]
    cache = ROOT / ".mypy_cache" / "template"
    mypy = (sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache)
    own = tmp_path / "test_an_observer_that_writes.py"
    own.write_text(WRITES)
    _run(*mypy, *folders, own, cwd=next(iter(rendered.values())).parent)


CALLED = re.compile("acme.?(sse|ndjson|openai).?(bearer|header|none)", re.IGNORECASE)


def lines_of(folder: Path) -> set[str]:
    """Return the lines of a rendered package, without what it is called."""
    files = [path for path in _files(folder) if path.suffix != ".md"]
    text = "\n".join(path.read_text("utf-8") for path in files)
    return set(CALLED.sub("acme", text).splitlines())


def test_the_suites_that_run_have_every_line_of_the_template(
    rendered: Mapping[str, Path],
) -> None:
    run = set().union(*(lines_of(rendered[variant]) for variant in SUITES))
    for variant, folder in rendered.items():
        assert lines_of(folder) - run == set(), variant


@pytest.mark.heavy
def test_a_variants_own_suite_is_green_before_its_author_writes_a_line(
    rendered: Mapping[str, Path], environment: Environment, tmp_path: Path
) -> None:
    folders = [rendered[variant] for variant in SUITES]
    environment.install_all(folders, tmp_path)
    output = environment.run(
        "pytest", "-q", "-p", "no:cacheprovider",
        "-c", folders[0] / "pyproject.toml", "--rootdir", folders[0].parent,
        *(folder / "tests" for folder in folders),
        cwd=folders[0].parent,
    )  # fmt: skip
    lines = [line for line in output.splitlines() if ": consistent: " in line]
    consistent = {line.partition(":")[0] for line in lines}
    names = {"observer": "AcmeObserver", "wrapper": "AcmeWrapper"}
    assert consistent == {names.get(variant, f"acme-{variant}") for variant in SUITES}
    figures = [line.split()[2] for line in output.splitlines() if ": evidence: " in line]
    assert set(figures) == {"0", "none"}


def test_from_swink_new_to_the_kit_and_the_demo_takes_less_than_a_minute(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    before = _spent()
    made = environment.run("swink_cli", "new", "acme", "--kind", "sse", cwd=tmp_path)
    folder = tmp_path / "swink-provider-acme"
    assert f"cd {folder}" in made.replace("\n", " ")
    environment.install("-e", folder, cwd=folder)
    assert "acme: consistent: " in environment.run("pytest", cwd=folder)
    demo = environment.run("swink_cli", "demo", cwd=folder, COLUMNS="200")
    rows = {line.split()[0]: line for line in demo.splitlines() if line.strip()}
    assert "acme-sse" in rows["acme"]
    assert len(rows.keys() & {*Host(environ={}).provider_names()}) > 3
    assert 0 < _spent() - before < SECONDS


@pytest.mark.parametrize("name", ["Acme", "9lives", "a b"])
def test_an_invalid_name_is_refused(name: str, tmp_path: Path) -> None:
    from cookiecutter.exceptions import FailedHookException
    from cookiecutter.main import cookiecutter

    with pytest.raises(FailedHookException):
        cookiecutter(
            str(TEMPLATE),
            no_input=True,
            default_config=True,
            extra_context={"name": name},
            output_dir=str(tmp_path),
        )
    assert list(tmp_path.iterdir()) == []


def _workflow(folder: Path) -> Any:
    return msgspec.yaml.decode((folder / ".github/workflows/ci.yml").read_bytes())


def test_the_workflow_runs_what_the_readme_says(rendered: Mapping[str, Path]) -> None:
    folder = rendered["sse-bearer"]
    test = _workflow(folder)["jobs"]["test"]
    lines = [line for step in test["steps"] if "run" in step for line in step["run"].split(" && ")]
    readme = (folder / "README.md").read_text("utf-8")
    for command in ("pip install -e '.[test]'", "pytest", "mypy", "ruff check ."):
        assert command in lines
        assert command in readme
    assert test["strategy"]["matrix"]["python"][0] == "3.11"  # requires-python


def test_the_workflow_publishes_tags_after_the_tests_and_without_a_token(
    rendered: Mapping[str, Path],
) -> None:
    folder = rendered["sse-bearer"]
    workflow = _workflow(folder)
    publish = workflow["jobs"]["publish"]
    build = workflow["jobs"]["build"]
    assert publish["needs"] == "build"
    assert build["needs"] == ["test", "oldest"]
    assert "refs/tags/v" in build["if"]
    assert "permissions" not in build
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] in (folder / "README.md").read_text("utf-8")
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in (folder / ".github/workflows/ci.yml").read_text("utf-8")
    used = [step["uses"].partition("@")[0] for step in publish["steps"] if "uses" in step]
    assert used[-1] == "pypa/gh-action-pypi-publish"


def test_the_workflow_pins_what_it_runs_to_commits(rendered: Mapping[str, Path]) -> None:
    jobs = _workflow(rendered["sse-bearer"])["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


def test_the_author_is_who_was_named(tmp_path: Path) -> None:
    from swink_cli.commands.new import command

    author = 'Ada "the" Lovelace'
    asked = ["acme", "--kind", "sse", "--author", author, "--output", str(tmp_path)]
    command.main(asked, standalone_mode=False)
    folder = tmp_path / "swink-provider-acme"
    project = msgspec.toml.decode((folder / "pyproject.toml").read_bytes())["project"]
    assert project["authors"] == [{"name": author}]
    assert author in (folder / "LICENSE").read_text("utf-8")


def test_package_metadata_for_an_index_is_complete(rendered: Mapping[str, Path]) -> None:
    project = msgspec.toml.decode((rendered["observer"] / "pyproject.toml").read_bytes())["project"]
    pythons = [f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)]
    assert {*pythons, "Typing :: Typed"} <= {*project["classifiers"]}
    assert project["urls"].keys() == {"Repository", "Issues", "Changelog"}
    test = _workflow(rendered["observer"])["jobs"]["test"]
    assert test["strategy"]["matrix"]["python"] == [name.split()[-1] for name in pythons]


def test_nothing_is_invented(rendered: Mapping[str, Path]) -> None:
    for folder in rendered.values():
        for file in folder.glob("src/*/models.toml"):
            (model,) = msgspec.toml.decode(file.read_bytes())["models"]
            assert model.keys() <= {"id", "capabilities"}
        assert "authors" not in msgspec.toml.decode((folder / "pyproject.toml").read_bytes())


def _files(folder: Path) -> list[Path]:
    """Return the files of a scaffolded project, without those that running its tests adds."""
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
