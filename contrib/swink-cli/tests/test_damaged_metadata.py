"""Damaged metadata of one distribution: every command goes on, and the damage is reported."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import swink_core
from swink_test_helpers.installed import LINES_PROVIDER, catalogue, install

Swink = Callable[..., subprocess.CompletedProcess[str]]

PROVIDER = {"swink.providers": {"acme": "acme_package:LinesProvider"}}

FILES = {"acme_package.py": LINES_PROVIDER}


def _info(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('-', '_')}-1.0.dist-info"


def _without_metadata(info: Path) -> None:
    (info / "METADATA").unlink()


def _malformed(info: Path) -> None:
    (info / "entry_points.txt").write_text("[swink.providers]\nacme acme_mod:P\n[[[\n")


def _not_utf8(info: Path) -> None:
    (info / "entry_points.txt").write_bytes(b"[swink.providers]\nacme = \xff\n")


def _metadata_not_utf8(info: Path) -> None:
    (info / "METADATA").write_bytes(b"Name: metadata-not-utf8\nVersion: 1\nSummary: \xff\n")


def _directory(info: Path) -> None:
    (info / "entry_points.txt").unlink()
    (info / "entry_points.txt").mkdir()


def _unreadable(info: Path) -> None:
    (info / "entry_points.txt").unlink()
    (info / "entry_points.txt").symlink_to("entry_points.txt")  # for the superuser too


# the name of the distribution, what damages it, the file that is reported, and the problem
DAMAGED: list[tuple[str, Callable[[Path], None], str, str]] = [
    ("without-metadata", _without_metadata, "METADATA", "the file is missing"),
    ("malformed", _malformed, "entry_points.txt", "is not of the form `name = package.module"),
    ("not-utf8", _not_utf8, "entry_points.txt", "it is not UTF-8"),
    ("metadata-not-utf8", _metadata_not_utf8, "METADATA", "it is not UTF-8"),
    ("directory", _directory, "entry_points.txt", "Is a directory"),
    ("unreadable", _unreadable, "entry_points.txt", "Too many levels of symbolic links"),
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Install a sound command, and distributions that are each damaged in one way."""
    folder = tmp_path / "site"
    command = "import click\n@click.command()\ndef hello():\n    click.echo('hello there')\n"
    files = {"greeting_package.py": command}
    sound = {"swink.commands": {"hello": "greeting_package:hello"}}
    install(folder, "greeting", sound, files)
    for name, damage, _, _ in DAMAGED:
        install(folder, name, {"swink.elsewhere": {"x": "y:z"}}, {})
        damage(_info(folder, name))
    (folder / "in_its_place-1.0.dist-info").write_text("a file, where a folder belongs")
    return folder


def test_every_command_goes_on_beside_damaged_distributions(swink: Swink, site: Path) -> None:
    for arguments, expected in (
        (["--help"], "hello"),
        (["hello"], "hello there"),
        (["ask", "-m", "echo/echo", "Hi"], "Hi"),
    ):
        done = swink(*arguments, PYTHONPATH=str(site))
        assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
        assert expected in done.stdout


def test_doctor_and_plugins_name_each_damaged_file(swink: Swink, site: Path) -> None:
    doctor = swink("doctor", PYTHONPATH=str(site))
    plugins = swink("plugins", PYTHONPATH=str(site))
    assert doctor.returncode == 1
    assert plugins.returncode == 0
    assert "echo" in plugins.stdout
    for name, _, file, problem in DAMAGED:
        path = str(_info(site, name) / file)
        [finding] = [each for each in doctor.stdout.split("\n\n") if path in each]
        assert f"{path} ({name})" in finding
        assert problem in finding
        assert f"Reinstall {name}." in finding
        [line] = [line for line in plugins.stderr.splitlines() if path in line]
        assert name in line
        assert problem in line
    assert "in_its_place-1.0.dist-info" in doctor.stdout
    assert "greeting-1.0" not in doctor.stdout


def test_an_unknown_provider_names_the_metadata_that_may_have_declared_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "swink-provider-acme", PROVIDER, FILES)
    info = _info(tmp_path, "swink-provider-acme")
    _malformed(info)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(swink_core.UnknownProvider, match='no provider "acme"') as caught:
        swink_core.Host().bind("acme")
    assert str(info / "entry_points.txt") in caught.value.resolution


def test_a_distribution_that_is_removed_from_a_running_process_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"gone_package/__init__.py": LINES_PROVIDER, "gone_package/models.toml": catalogue()}
    entry = {"swink.providers": {"gone": "gone_package:LinesProvider"}}
    install(tmp_path, "swink-provider-gone", entry, files)
    info = _info(tmp_path, "swink-provider-gone")
    monkeypatch.syspath_prepend(str(tmp_path))
    host = swink_core.Host()
    for file in [*info.iterdir(), *(tmp_path / "gone_package").iterdir()]:
        file.unlink()
    info.rmdir()
    (tmp_path / "gone_package").rmdir()
    with pytest.raises(swink_core.PluginError, match=r'"gone" \(swink-provider-gone 1\.0\)'):
        host.bind("gone")
    [entry_left] = [each for each in host.entries() if each.name == "gone"]
    assert (entry_left.distribution, entry_left.version) == ("swink-provider-gone", "1.0")
