"""`make release`: which Pythons it takes, what it says at the end, and what its SBOM tells."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab.release import rehearsal, sbom

TOLD = "\n## 0.2.0 (2026-11-23)\n"

HERE = {"3.11": "/usr/bin/python3.11", "3.13": "/usr/bin/python3.13"}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, str], bool]]:
    """The wheels to build on a machine with two Python versions, and whether to test them."""
    seen: list[tuple[dict[str, str], bool]] = []
    monkeypatch.setattr(rehearsal, "interpreter", HERE.get)
    monkeypatch.setattr(
        rehearsal, "released", lambda _, found, with_tests: seen.append((found, with_tests))
    )
    return seen


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["rehearsal", *arguments])
    return rehearsal.main()


def test_without_a_name_it_uses_the_installed_one(
    monkeypatch: pytest.MonkeyPatch, steps: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch) == 0
    assert steps == [(HERE, True)]
    said = capsys.readouterr().out
    assert "absent  Python 3.12\nabsent  Python 3.14\n" in said
    assert "left out" not in said


@pytest.mark.parametrize(
    ("asked", "absent"), [(("3.11", "nope"), "nope"), (("3.12", "3.14"), "3.12, 3.14")]
)
def test_a_python_that_was_asked_for_must_be_here(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Any],
    asked: tuple[str, ...],
    absent: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run(monkeypatch, *(part for each in asked for part in ("--python", each))) == 1
    assert capsys.readouterr().err == f"FAILED  this machine has no Python {absent}\n"
    assert steps == []


STOPPED = """
import sys
from lab.release import rehearsal
from pathlib import Path

ENDLESS = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).mkdir(parents=True); time.sleep(99)"

def build(project, folder):
    rehearsal.run([sys.executable, "-c", ENDLESS, folder / project.name])

rehearsal.DIST = Path(sys.argv.pop())
rehearsal.build = build
rehearsal.interpreter = lambda _: "python"
sys.exit(rehearsal.main())
"""
"""A release whose builds take for ever."""


WINDOWS = "import os, signal; del os.killpg, signal.SIGKILL\n"
"""The missing part."""


@pytest.mark.skipif(sys.platform == "win32", reason="no signal can be sent to one process there")
@pytest.mark.parametrize("system", ["", WINDOWS], ids=["here", "as on Windows"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_release_that_is_stopped_leaves_nothing(number: int, system: str, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    release = subprocess.Popen(
        [sys.executable, "-c", system + STOPPED, tmp_path / "dist"],
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(rehearsal.ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not [*scratch.glob("swink-build-*/*")]:
        time.sleep(0.01)
    release.send_signal(number)
    _, said = release.communicate(timeout=60)
    assert (release.returncode, said) == (128 + number, "stopped; dist/ is not whole\n")
    assert [*scratch.iterdir()] == []


def test_it_says_that_the_tests_were_left_out(
    monkeypatch: pytest.MonkeyPatch, steps: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "--python", "3.13", "--without-tests") == 0
    assert steps == [({"3.13": HERE["3.13"]}, False)]
    assert capsys.readouterr().out.startswith("left out: the tests;")


@pytest.mark.parametrize(
    ("tag", "versions", "text", "fragments", "said"),
    [
        ("v0.2.0", {"0.2.0"}, TOLD, (), None),
        ("v0.2.0", {"0.2.0"}, "\n## 0.1.0 (2026-01-01)\n", (), "says nothing of 0.2.0"),
        ("v0.2.0", {"0.1.0"}, TOLD, (), "are 0.1.0, which is not the tag v0.2"),
        ("v0.2.0", {"0.1.0", "0.2.0"}, TOLD, (), "are 0.1.0, 0.2.0, which is"),
        ("0.2.0", {"0.2.0"}, TOLD, (), "which is not the tag 0.2.0"),
        ("v0.2.0", {"0.2.0"}, TOLD, ("2.fixed.md", "1.added.md"),
         "has 2 changes that CHANGELOG.md has not, as 1.added.md"),
    ],
)  # fmt: skip
def test_a_tag_is_of_the_version_whose_changes_are_told(
    tmp_path: Path, tag: str, versions: set[str], text: str, fragments: Any, said: str | None
) -> None:
    (tmp_path / "changelog.d").mkdir()
    for name in ("README.md", *fragments):
        (tmp_path / "changelog.d" / name).touch()
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n{text}")
    found = rehearsal.fault_of_tag(tag, versions, tmp_path)
    assert (said or "") in (found or "")
    assert (found is None) == (said is None)


def test_a_tag_that_does_not_fit_ends_it_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, steps: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "--tag", "v0.0.1") == 1
    assert "FAILED  the distributions are " in capsys.readouterr().err
    assert steps == []


def test_each_distribution_brings_the_licence() -> None:
    said = (rehearsal.ROOT / "LICENSE").read_text("utf-8")
    folders = [project.folder for project in rehearsal.distributions()]
    assert [each.name for each in folders if (each / "LICENSE").read_text("utf-8") != said] == []


def test_an_sbom_tells_which_files_our_distributions_are(tmp_path: Path) -> None:
    wheel = tmp_path / "swink_core-0.2.0-py3-none-any.whl"
    sdist = tmp_path / "swink_core-0.2.0.tar.gz"
    for file in (sdist, wheel):
        file.write_text(file.name)
    home = {"type": "website", "url": "https://example.org"}
    local = {"type": "distribution", "url": wheel.as_uri()}
    theirs = {"bom-ref": "attrs==1", "name": "attrs", "purl": "pkg:pypi/attrs@1"}
    bom: dict[str, Any] = {
        "metadata": {},
        "components": [
            {"bom-ref": "c", "name": "swink-core", "externalReferences": [home, local]},
            dict(theirs),
        ],
        "dependencies": [{"ref": "c", "dependsOn": ["attrs==1"]}],
    }

    sbom.complete(bom, "0.2.0", [sdist, wheel])

    core, other = bom["components"]
    digests = [
        {"alg": "SHA-256", "content": hashlib.sha256(file.name.encode()).hexdigest()}
        for file in (wheel, sdist)
    ]
    assert core["purl"] == "pkg:pypi/swink-core@0.2.0"
    assert core["hashes"] == digests[:1]
    assert core["externalReferences"] == [
        home,
        {"type": "distribution", "url": wheel.name, "hashes": digests[:1]},
        {"type": "distribution", "url": sdist.name, "hashes": digests[1:]},
    ]
    assert other == theirs
    assert (bom["metadata"]["component"]["name"], bom["metadata"]["component"]["version"]) == (
        "swink",
        "0.2.0",
    )
    root = bom["metadata"]["component"]["bom-ref"]
    assert {"ref": root, "dependsOn": ["c"]} in bom["dependencies"]
    assert str(tmp_path) not in json.dumps(bom)
