"""Build a release and try it, and stop before anything is uploaded.

Every distribution is built into `dist/` and its metadata checked. The whole set is installed into
empty environments: on each Python of this machine, with the newest versions of the dependencies,
and on the oldest Python with the oldest allowed versions; there each distribution's tests run from
its sdist. The installed packages, without those of the tests, are listed in `dist/` as an SBOM. A
given tag must match the version of the distributions, whose changes must be in CHANGELOG.

    python -m lab.release.rehearsal [--python 3.12 …] [--tag v0.2.0] [--without-tests]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from lab.release import programs
from lab.release.sbom import complete
from lab.release.smoke_wheels import (
    HELPERS,
    ROOT,
    Project,
    SmokeFailure,
    build,
    distributions,
    run,
    run_tests,
)

DIST = ROOT / "dist"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")

UV = (sys.executable, "-m", "uv")

BY_NAME = "import importlib.metadata as m, sys; [p.load() for n in sys.argv[1:] for p in m.distribution(n).entry_points]"  # noqa: E501
"""Load every entry point of the distributions that are named."""


@dataclass(frozen=True)
class Place:
    """An environment of the release: a Python, and which end of the ranges it takes."""

    version: str
    resolution: str
    home: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.home / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of programs: without the caller's Python, and with the environment's
        first.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = f"{self.home / 'bin'}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "PATH": path, "UV_PYTHON_DOWNLOADS": "never"}

    def __str__(self) -> str:
        return f"Python {self.version}, {self.resolution} versions"


def interpreter(version: str) -> str | None:
    """Return a Python of this machine that is of a version, `None` if it has none."""
    found = subprocess.run(
        [*UV, "python", "find", "--no-project", "--system", version],
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
        capture_output=True,
        text=True,
    )
    return found.stdout.strip() or None if found.returncode == 0 else None


def install(place: Place, base: str, projects: list[Project], with_tools: bool = True) -> None:
    """Install the set into an empty environment, with all extras, and load all that it offers.

    Dependencies of the wheels are named too, because only named packages are resolved to their
    oldest versions. The tools are the dependencies of the tests, with the repository's helpers,
    installed from the checkout.
    """
    names = [project.name for project in projects]
    own = tuple(names)
    needs = {need for each in projects for need in each.needs if not need.startswith(own)}
    tools = {need for each in projects for need in each.tests_need if not need.startswith(own)}
    tools = {*tools, str(HELPERS)} if with_tools else set()
    run([*UV, "venv", "-q", "--python", base, place.home], env=place.variables)
    pip: list[str | Path] = [*UV, "pip", "install", "-q", "--python", place.python]
    pip += ["--find-links", DIST]
    wheels = [DIST / wheel_name(project) for project in projects]
    oldest = ["--resolution", "lowest-direct"] if place.resolution == "oldest" else []
    run([*pip, *oldest, *wheels, *sorted(needs)], env=place.variables)
    # the helpers' project names the checkout's own packages as sources: the wheels stand for them
    run([*pip, "--no-sources", *wheels, *sorted(needs | tools)], env=place.variables)
    run([*UV, "pip", "check", "--python", place.python], env=place.variables)
    run([place.python, "-I", "-c", BY_NAME, *names], env=place.variables)


def wheel_name(project: Project) -> str:
    """Return the name of a distribution's wheel."""
    return f"{project.name.replace('-', '_')}-{project.version}-py3-none-any.whl"


def built(projects: Iterable[Project]) -> None:
    """Build all distributions into `dist/`, and check their metadata for package indexes."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with (
        tempfile.TemporaryDirectory(prefix="swink-build-") as scratch,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        for wheel in pool.map(lambda project: build(project, Path(scratch)), projects):
            for file in wheel.parent.iterdir():
                shutil.copy(file, DIST)
    run([sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir())])


def tested(place: Place, projects: list[Project]) -> list[str]:
    """Run the tests of each distribution, from its sdist, in an environment.

    Return what failed. The largest sdists come first, whose tests mostly take longest.
    """
    with (
        tempfile.TemporaryDirectory(prefix="swink-sdists-") as scratch,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        sdists = Path(scratch) / "dist"
        sizes: dict[str, int] = {}
        for project in projects:
            sdist = DIST / f"{project.name.replace('-', '_')}-{project.version}.tar.gz"
            (sdists / project.name).mkdir(parents=True)
            shutil.copy(sdist, sdists / project.name)
            sizes[project.name] = sdist.stat().st_size
        [core] = DIST.glob("swink_core-*.tar.gz")
        jobs = {pool.submit(core_tested, place, core, Path(scratch) / "core"): "swink-core"}
        jobs |= {
            pool.submit(run_tests, project, place, sdists, Path(scratch) / "out"): project.name
            for project in sorted(projects, key=lambda each: -sizes[each.name])
            if project.tests_need
        }
        failed = []
        for job in as_completed(jobs):
            said = f"{jobs[job]}'s tests, {place}"
            try:
                print(f"ok      {said}: {job.result()}", flush=True)
            except SmokeFailure as failure:
                failed.append(said)
                print(f"FAILED  {said}\n{failure}", flush=True)
    return failed


def core_tested(place: Place, sdist: Path, folder: Path) -> str:
    """Run the core's tests from its sdist, and tell how it went: its source lies beside them, and
    is not what is tested."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    command: list[str | Path] = [place.python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    return run([*command, "tests"], cwd=unpacked, env=place.variables).splitlines()[-1]


def inventory(place: Place, version: str) -> Path:
    """Write what an environment has as an SBOM (CycloneDX), and return the file."""
    file = DIST / f"swink-{version}.cdx.json"
    run([sys.executable, "-m", "cyclonedx_py", "environment", place.python, "--of", "JSON",
         "-o", file], env=place.variables)  # fmt: skip
    bom = json.loads(file.read_bytes())
    complete(bom, version, [*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")])
    file.write_text(json.dumps(bom, indent=2) + "\n", "utf-8")
    return file


def pythons_here(asked: list[str]) -> dict[str, str]:
    """Return the paths of the requested Pythons, or of those of a release that are installed.

    Raises SmokeFailure if a requested one is missing, or none is found.
    """
    versions = asked or [*PYTHONS]
    found = {version: base for version in versions if (base := interpreter(version))}
    absent = [version for version in versions if version not in found]
    if absent and (asked or not found):
        raise SmokeFailure(f"this machine has no Python {', '.join(absent)}")
    for version in absent:
        print(f"absent  Python {version}", flush=True)
    return found


def released(projects: list[Project], found: dict[str, str], with_tests: bool) -> None:
    """Build, install and test on the Pythons that were found.

    Raises SmokeFailure for what would make a bad release.
    """
    versions = {project.version for project in projects}
    if len(versions) != 1:
        raise SmokeFailure(f"the distributions have several versions: {', '.join(versions)}")
    built(projects)
    print(f"ok      {len(projects)} distributions, {len([*DIST.iterdir()])} files", flush=True)
    oldest = next(iter(found))
    failed = []
    with tempfile.TemporaryDirectory(prefix="swink-release-") as scratch:
        places = [Place(oldest, "oldest", Path(scratch) / f"{oldest}-oldest")]
        places += [Place(each, "newest", Path(scratch) / each) for each in found]
        for place in places:
            install(place, found[place.version], projects)
            print(f"ok      {place}: installed", flush=True)
            if with_tests:
                failed += tested(place, projects)
        bare = Place(places[-1].version, "newest", Path(scratch) / "bare")
        install(bare, found[bare.version], projects, with_tools=False)
        file = inventory(bare, *versions)
    print(f"ok      {file.relative_to(ROOT)}", flush=True)
    if failed:
        raise SmokeFailure("\n".join(failed))


def fault_of_tag(tag: str, versions: set[str], root: Path = ROOT) -> str | None:
    """Return the mismatch of a tag with the versions of distributions, or `None`."""
    if versions != {tag.removeprefix("v")} or not tag.startswith("v"):
        return f"the distributions are {', '.join(sorted(versions))}, which is not the tag {tag}"
    version = tag.removeprefix("v")
    if f"\n## {version} (" not in (root / "CHANGELOG.md").read_text("utf-8"):
        return f"CHANGELOG.md says nothing of {version}: make changelog VERSION={version}"
    left = [path.name for path in (root / "changelog.d").glob("*.md") if path.name != "README.md"]
    if left:
        return f"changelog.d/ has {len(left)} changes that CHANGELOG.md has not, as {min(left)}"
    return None


def main() -> int:
    """Make the release; return 1 if it would be a bad one."""
    parser = argparse.ArgumentParser(prog="python -m lab.release.rehearsal", description=__doc__)
    parser.add_argument("--python", action="append", metavar="VERSION", help="instead of all")
    parser.add_argument("--tag", help="for which it is made")
    parser.add_argument("--without-tests", action="store_true")
    options = parser.parse_args()
    projects = distributions()
    versions = {project.version for project in projects}
    why = fault_of_tag(options.tag or f"v{min(versions)}", versions)
    try:
        if why and options.tag:
            raise SmokeFailure(why)
        with programs.stopping():
            found = pythons_here(options.python or [])
            released(projects, found, not options.without_tests)
    except SmokeFailure as failure:
        print(f"FAILED  {failure}", file=sys.stderr)
        return 1
    except programs.Stopped as stopped:
        print("stopped; dist/ is not whole", file=sys.stderr)
        return stopped.exit_code
    if options.without_tests:
        print("left out: the tests; run it once more with them before you push a tag")
    if why:
        print(f"no tag can be pushed yet: {why}")
    print("nothing was uploaded: push the tag v… and the workflow `release` publishes these files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
