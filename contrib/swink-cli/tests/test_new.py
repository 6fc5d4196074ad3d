"""`swink new` refuses names, with nothing installed that makes packages."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import swink_core as swink
from swink_cli.commands.new import command


def new(name: str, folder: Path, *more: str) -> None:
    given = [name, "--kind", "sse", "--output", str(folder), *more]
    command.main(given, standalone_mode=False)


@pytest.mark.parametrize(
    ("name", "owner"),
    [("anthropic", "swink-provider-anthropic"), ("groq", "swink-provider-openai")],
)
def test_the_name_of_a_known_provider_is_refused_though_it_is_not_installed(
    name: str, owner: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(swink.Host, "provider_names", lambda _: ())

    with pytest.raises(swink.UsageError, match=f"{name} already exists, in {owner}"):
        new(name, tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_the_name_of_an_installed_provider_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Acme:
        distribution = "somebodys-acme"

    monkeypatch.setattr(swink.Host, "provider_names", lambda _: ("acme",))
    monkeypatch.setattr(swink.Host, "entry", lambda _, name: Acme)

    with pytest.raises(swink.UsageError, match="acme already exists, in somebodys-acme"):
        new("acme", tmp_path)


@pytest.mark.parametrize("name", ["Acme", "9lives", "a b", "../acme", "acme-", "acme_", "none"])
def test_an_invalid_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(swink.UsageError, match="invalid plugin name"):
        new(name, tmp_path)


@pytest.mark.parametrize("kind", ["stream", "observer", "wrapper"])
def test_a_header_for_a_kind_without_a_key_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(swink.UsageError, match=f"--auth header has no effect on --kind {kind}"):
        new("acme", tmp_path, "--auth", "header", "--kind", kind)
    assert list(tmp_path.iterdir()) == []


def test_the_prefix_of_a_distribution_is_not_repeated(tmp_path: Path) -> None:
    pytest.importorskip("cookiecutter")

    new("swink-provider-acme", tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["swink-provider-acme"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        *product(["--title", "--author", "--base-url"], ["Acme\nInc", "C:\\acme", "{{ acme }}"]),
        ("--title", 'Acme "Inc"'),
        ("--base-url", 'https://acme.example/"'),
    ],
)
def test_words_that_would_break_a_file_are_refused(option: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(
        swink.UsageError,
        match=f"{option} .* contains characters that cannot",
    ):
        new("acme", tmp_path, option, words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    [
        "not a url",
        "",
        "api.acme.example/v1",
        "ftp://acme.example",
        "https://",
        "https:///v1",
        "https://acme.example:port/v1",
        "https://user:word@acme.example/v1",
        "https://acme.example/v 1",
        "https://acme.example/v1?version=2",
    ],
)
def test_an_invalid_address_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(swink.UsageError, match="invalid --base-url") as refused:
        new("acme", tmp_path, "--base-url", address)

    assert "such as https://api.example.com/v1" in str(refused.value.resolution)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    [
        "https://acme.example",
        "http://localhost:8080/",
        "http://[::1]:80/v1",
        "https://a.example/v1",
    ],
)
def test_an_address_with_a_host_is_accepted(address: str, tmp_path: Path) -> None:
    pytest.importorskip("cookiecutter")

    new("acme", tmp_path, "--base-url", address)

    [models] = tmp_path.glob("*/src/*/models.toml")
    assert f'base_url = "{address}"' in models.read_text("utf-8")
