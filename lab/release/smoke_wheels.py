"""Build every distribution and try its wheel in a separate environment.

Each environment holds one wheel and what that wheel declares, nothing else. In it every
module is imported, every entry point is loaded, a provider's is also called with its
name, and the commands in `[tool.swink.smoke] commands` must succeed. Modules listed in
`[tool.swink.smoke.extras]` are left out until their extra is installed; then the commands in
`commands_with_extras` must succeed too.

Then each sdist is unpacked, far from the repository, and its tests are collected in one more
environment: that of all wheels and of what the distributions declare in their dependency group
`test`. Collecting imports every test module, and finds missing files and dependencies; `make test`
runs the same tests in the checkout, and `make release` runs them from the sdists. The helpers of
tests, which are not released, are built from the checkout for it.

    python -m lab.release.smoke_wheels [DISTRIBUTION ...]
"""

import json
import os
import shlex
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from lab.release import programs

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "constraints.txt"

HELPERS = ROOT / "tests" / "helpers"
"""The unreleased distribution that tests need."""

# Runs inside the environment, so it may import nothing but the standard library.
TRY = r"""
import importlib, importlib.metadata, json, pkgutil, sys

job = json.loads(sys.argv[1])

def listed(name, prefixes):
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)

def walk(name):
    if listed(name, job["later"]):
        return
    module = importlib.import_module(name)
    for child in pkgutil.iter_modules(getattr(module, "__path__", ()), name + "."):
        if not child.name.endswith(".__main__"):
            walk(child.name)

for package in job["packages"]:
    walk(package)
for point in importlib.metadata.distribution(job["name"]).entry_points:
    if listed(point.module, job["later"]):
        continue
    loaded = point.load()
    if point.group == "swink.providers":
        loaded(point.name)
"""


class SmokeFailure(Exception):
    pass


@dataclass(frozen=True)
class Project:
    name: str
    version: str
    folder: Path
    packages: tuple[Path, ...]
    commands: tuple[str, ...]
    extras: dict[str, list[str]]
    commands_with_extras: tuple[str, ...]
    tests_need: tuple[str, ...]
    needs: tuple[str, ...]
    """The dependencies, with all extras."""

    @classmethod
    def read(cls, path: Path) -> "Project":
        data: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        smoke = data["tool"].get("swink", {}).get("smoke", {})
        return cls(
            name=data["project"]["name"],
            version=data["project"]["version"],
            folder=path.parent,
            packages=tuple(
                path.parent / package
                for package in data["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
            ),
            commands=tuple(smoke.get("commands", ())),
            extras=smoke.get("extras", {}),
            commands_with_extras=tuple(smoke.get("commands_with_extras", ())),
            tests_need=tuple(data.get("dependency-groups", {}).get("test", ())),
            needs=(
                *data["project"].get("dependencies", ()),
                *chain(*data["project"].get("optional-dependencies", {}).values()),
            ),
        )


def run(command: Sequence[str | Path], **options: Any) -> str:
    code, said = programs.run(command, **options)
    if code:
        shown = shlex.join(str(part) for part in command if part != TRY)
        raise SmokeFailure(f"{shown}\n{said}")
    return said


class PythonEnvironment(Protocol):
    """Where tests run."""

    @property
    def python(self) -> Path: ...

    @property
    def variables(self) -> dict[str, str]: ...


def build(project: Project, into: Path) -> Path:
    # The wheel is made from the sdist, so this tries both.
    out = into / project.name
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, project.folder])
    (wheel,) = out.glob("*.whl")
    check_contents(project, wheel)
    return wheel


def check_contents(project: Project, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    for package in project.packages:
        expected = {
            (Path(folder) / name).relative_to(package.parent).as_posix()
            for folder, _, names in os.walk(package, followlinks=True)
            for name in names
            if "__pycache__" not in Path(folder).parts
        }
        expected.add(f"{package.name}/py.typed")
        if missing := sorted(expected - shipped):
            raise SmokeFailure(f"{wheel.name} lacks {', '.join(missing)}")


def download(projects: list[Project], wheels: list[Path], into: Path) -> None:
    # One resolution for all; own wheels by path, so that no index can offer others. One that has
    # extras is named without them too: pip meets others that need it without before.
    own = tuple(project.name for project in projects)
    wanted = [need for p in projects for need in p.tests_need if not need.startswith(own)]
    wanted += [str(wheel) for wheel in wheels]
    wanted += [
        f"{wheel}[{','.join(project.extras)}]"
        for project, wheel in zip(projects, wheels, strict=True)
        if project.extras
    ]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    # pip sees through a path to the wheel with its extras, and finds the wheel without them here
    links = [option for wheel in wheels for option in ("--find-links", wheel.parent)]
    run([*pip, "download", "-qq", "-c", CONSTRAINTS, "-d", into, *links, *wanted])


class Environment:
    """An environment with nothing of the caller's: no PYTHONPATH, no activated commands."""

    def __init__(self, home: Path, wheelhouse: Path) -> None:
        venv.create(home, with_pip=False)
        self.home = home
        self.python = home / "bin" / "python"
        self.variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self.variables["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        self._wheelhouse = wheelhouse

    def install(self, *requirements: str) -> None:
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        pip += ["--python", self.python]
        # most installed modules are never imported; Python compiles the others on import
        pip += ["install", "-qq", "--no-input", "--no-index", "--no-compile"]
        pip += ["--find-links", self._wheelhouse]
        run([*pip, *requirements], cwd=self.home)


def smoke(project: Project, wheelhouse: Path, folder: Path) -> None:
    environment = Environment(folder / project.name, wheelhouse)
    home, python, install = environment.home, environment.python, environment.install
    options: dict[str, Any] = {"cwd": home, "env": environment.variables}

    def try_all(later: list[str]) -> None:
        packages = [package.name for package in project.packages]
        job = {"name": project.name, "packages": packages, "later": later}
        run([python, "-I", "-c", TRY, json.dumps(job)], **options)

    def run_all(commands: Sequence[str]) -> None:
        for command in commands:
            script, *arguments = shlex.split(command)
            run([home / "bin" / script, *arguments], **options)

    install(f"{project.name}=={project.version}")
    try_all([module for modules in project.extras.values() for module in modules])
    run_all(project.commands)
    if project.extras:
        install(f"{project.name}[{','.join(project.extras)}]=={project.version}")
        try_all([])
        run_all(project.commands_with_extras)


def run_tests(
    project: Project, environment: PythonEnvironment, sdists: Path, folder: Path, *options: str
) -> str:
    """Run pytest with `options` in a distribution's unpacked sdist, and return its last line."""
    (sdist,) = (sdists / project.name).glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    command: list[str | Path] = [environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return run([*command, *options], cwd=unpacked, env=environment.variables).splitlines()[-1]


def distributions() -> list[Project]:
    paths = [ROOT / "pyproject.toml"]
    for group in ("plugins", "contrib"):
        paths += sorted(ROOT.glob(f"{group}/*/pyproject.toml"))
    return [Project.read(path) for path in paths]


def main() -> int:
    projects = distributions()
    helpers = Project.read(HELPERS / "pyproject.toml")
    asked = sys.argv[1:]
    if unknown := set(asked) - {project.name for project in projects}:
        print(f"no distribution {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2

    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="swink-wheels-") as place,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        folder = Path(place)
        try:
            built = [*projects, helpers]
            wheels = list(pool.map(lambda project: build(project, folder / "dist"), built))
            download(built, wheels, folder / "wheelhouse")
        except SmokeFailure as error:
            print(error, file=sys.stderr)
            return 1
        chosen = [project for project in projects if not asked or project.name in asked]
        jobs: list[tuple[str, Future[Any]]] = [
            (project.name, pool.submit(smoke, project, folder / "wheelhouse", folder / "venvs"))
            for project in chosen
        ]
        if tested := [project for project in chosen if project.tests_need]:
            shared = Environment(folder / "tests", folder / "wheelhouse")
            names = [f"{project.name}=={project.version}" for project in projects]
            shared.install(*names, *{need for p in tested for need in p.tests_need})
            collecting = ("--collect-only", "--assert=plain")
            arguments = (shared, folder / "dist", folder / "sdists", *collecting)
            jobs += [
                (f"{project.name}'s tests", pool.submit(run_tests, project, *arguments))
                for project in tested
            ]
        for name, job in jobs:
            failure = job.exception()
            if failure is None:
                print(f"ok      {name}  {job.result() or ''}".rstrip(), flush=True)
            elif isinstance(failure, SmokeFailure):
                failed += 1
                print(f"FAILED  {name}\n{failure}", flush=True)
            else:
                raise failure
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        with programs.stopping():
            sys.exit(main())
    except programs.Stopped as stopped:
        sys.exit(stopped.exit_code)
