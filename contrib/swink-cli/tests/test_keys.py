"""Stored API keys: their location, who may read them, and to whom they are sent."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService, HTTPError

KEY, OTHER = "sk-canary-0123456789", "sk-other-9876543210"

RING = '''"""A keyring of this process's own, in a file."""
import json, os
from pathlib import Path
from keyring.backend import KeyringBackend
from keyring.errors import PasswordSetError

FILE = Path(os.environ["RING"])

class Ring(KeyringBackend):
    priority = 5

    def get_password(self, service, username):
        return self._all().get(f"{service} {username}")

    def set_password(self, service, username, password):
        if os.environ.get("RING_IS_LOCKED"):
            raise PasswordSetError("it is locked")
        FILE.write_text(json.dumps({**self._all(), f"{service} {username}": password}))

    def delete_password(self, service, username):
        kept = self._all()
        del kept[f"{service} {username}"]
        FILE.write_text(json.dumps(kept))

    def _all(self):
        return json.loads(FILE.read_text()) if FILE.exists() else {}
'''


@pytest.fixture
def file(swink_environment: dict[str, str]) -> Path:
    """Where a platform of this kind keeps it."""
    return Path(swink_environment["HOME"]) / ".config" / "swink" / "keys.toml"


def sent(service: ChatService) -> list[str | None]:
    """The credentials of each request."""
    return [exchange.headers.get("authorization") for exchange in service.exchanges]


def rows(text: str) -> list[str]:
    """Lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_key_is_private_to_its_user_and_never_shown(swink: Any, file: Path) -> None:
    done = [swink("keys", "set", "openai", stdin=f"{KEY}\n"), swink("keys"), swink("providers")]
    done += [swink("keys", "list", "--json"), swink("key", "path"), swink("--debug", "config")]
    assert [one.returncode for one in done] == [0] * 6
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert KEY in file.read_text()
    assert not any(KEY in one.stdout + one.stderr for one in done)
    assert rows(done[1].stdout) == ["PROVIDER KEY IN", "openai file"]
    assert "openai OpenAI openai-chat its key is stored" in rows(done[2].stdout)
    assert json.loads(done[3].stdout) == [{"provider": "openai", "place": "file"}]
    assert done[4].stdout == f"{file}\n"
    assert swink("keys", "remove", "openai").returncode == 0
    assert KEY not in file.read_text()
    assert "no keys stored" in swink("keys", "list").stdout
    assert swink("keys", "remove", "openai").returncode == 2


def test_a_stored_key_goes_to_its_provider_unless_the_environment_has_one(swink: Any) -> None:
    assert swink("keys", "set", "openai", stdin=KEY).returncode == 0
    assert swink("--profile", "work", "keys", "set", "openai", stdin=OTHER).returncode == 0
    with ChatService(["Here."]) as service:
        to = ("-m", "openai/any", "--base-url", service.base_url, "Hi")
        assert swink("ask", *to).stdout == "Here.\n"
        assert swink("events", *to).returncode == 0
        assert swink("chat", *to[:4], stdin="Hi\n").stdout == "Here.\n"
        assert swink("--profile", "work", *to).returncode == 0
        assert swink("ask", *to, SWINK_PROFILE="work").returncode == 0
        assert swink("ask", *to, OPENAI_API_KEY="sk-env-01234567").returncode == 0
        assert swink("ask", *to, "--api-key", "sk-arg-01234567").returncode == 0
        named = swink("keys", OPENAI_API_KEY="sk-env-01234567")
        expected = [KEY, KEY, KEY, OTHER, OTHER, "sk-env-01234567", "sk-arg-01234567"]
        assert sent(service) == [f"Bearer {key}" for key in expected]
    assert rows(named.stdout)[1:] == ["openai OPENAI_API_KEY", "openai file"]


def test_a_key_is_stored_in_and_removed_from_the_profile_that_the_settings_name(
    swink: Any, file: Path
) -> None:
    assert swink("config", "set", "profile", "work").returncode == 0
    assert swink("keys", "set", "openai", stdin=OTHER).returncode == 0
    assert tomllib.loads(file.read_text()) == {"profiles": {"work": {"openai": OTHER}}}
    assert swink("keys", "set", "groq", SWINK_PROFILE="home", stdin=KEY).returncode == 0
    assert swink("keys", "remove", "openai").returncode == 0
    assert tomllib.loads(file.read_text())["profiles"] == {"work": {}, "home": {"groq": KEY}}


def test_a_stored_key_reaches_no_child_process_and_no_log(swink: Any, site_with_spy: Path) -> None:
    """A plugin that sees all that there is to be seen finds it in the call's secrets alone."""
    assert swink("keys", "set", "echo", stdin=KEY).returncode == 2  # it needs none
    assert swink("keys", "set", "openai", stdin=KEY).returncode == 0
    with ChatService(["Here."]) as service:
        line = ("--debug", "ask", "-m", "openai/any", "--base-url", service.base_url, "Hi")
        done = swink(*line, PYTHONPATH=str(site_with_spy))
        assert sent(service) == [f"Bearer {KEY}"]
    assert (done.returncode, "environment: clean" in done.stdout) == (0, True)
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "environment", "told"),
    [
        ([], {"OPENAI_API_KEY": OTHER}, "Check OPENAI_API_KEY."),
        (["--api-key", OTHER], {}, "Check the key of --api-key, or the stored key (swink"),
        (["--api-key", OTHER], {"OPENAI_API_KEY": OTHER}, "Check the key of --api-key"),
    ],
)
def test_a_rejected_key_is_reported_with_its_source(
    swink: Any, given: list[str], environment: dict[str, str], told: str
) -> None:
    with ChatService(HTTPError(401, "no such key")) as service:
        line = ["ask", "-m", "openai/any", "--base-url", service.base_url, *given, "Hi"]
        assert told in swink(*line, **environment).stderr


def test_written_files_are_private_and_contain_no_key(
    swink: Any, swink_environment: dict[str, str], tmp_path: Path, file: Path
) -> None:
    """Stored calls, including failures, and settings."""
    assert swink("keys", "set", "openai", stdin=KEY).returncode == 0
    with ChatService(["Here."], HTTPError(401, f"no such key: {OTHER}")) as service:
        assert swink("config", "set", "providers.openai.base_url", service.base_url).returncode == 0
        assert swink("alias", "any", "openai/any").returncode == 0
        assert swink("--debug", "-m", "any", "Hi").returncode == 0
        refused = swink("--debug", "ask", "-c", "-m", "any", "--api-key", OTHER, "More")
        chat = swink("chat", "-m", "any", "--api-key", OTHER, stdin="Hi\n")
    assert (refused.returncode, chat.returncode) == (1, 1)
    assert not any(OTHER in one.stdout + one.stderr for one in (refused, chat))
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in written if KEY.encode() in path.read_bytes()] == [file]
    assert not [path for path in written if OTHER.encode() in path.read_bytes()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    assert any(path.name == "calls.sqlite" for path in written)


@pytest.fixture
def site_with_spy(tmp_path: Path) -> Path:
    """A plugin that looks for the key in the environment that children would inherit."""
    from swink_test_helpers.installed import install

    folder = tmp_path / "site"
    spy = f"""import os

class Spy:
    def __init__(self):
        print("environment:", "spoilt" if {KEY!r} in str(os.environ) else "clean")
"""
    install(folder, "swink-spy", {"swink.plugins": {"spy": "spy:Spy"}}, {"spy.py": spy})
    return folder


def test_a_stored_key_selects_the_provider_of_a_bare_name(swink: Any) -> None:
    line = ("ask", "-m", "gpt-oss-120b", "--base-url", "http://127.0.0.1:9", "-o", "retry.base=0")
    done = swink(*line, "Hi")
    assert (done.returncode, "listed by several providers" in done.stderr) == (2, True)
    assert swink("keys", "set", "sambanova", stdin=KEY).returncode == 0
    assert "trying sambanova/gpt-oss-120b" in swink(*line, "Hi").stderr


def test_a_key_is_typed_without_echo(start: Any, file: Path) -> None:
    running = start("keys", "set", "openai", size=(80, 10))
    running.wait_for("Key: ")  # the space comes when nothing typed is shown any more
    running.type(f"{KEY}\n")
    assert running.finish() == 0
    assert KEY.encode() not in running.output
    assert b"https://platform.openai.com/api-keys" in running.output
    assert KEY in file.read_text()


@pytest.mark.parametrize(
    ("line", "stdin", "said"),
    [
        (["set", "openai"], "", "no key was given"),
        (["set", "openai"], "OPENAI_API_KEY = x", "a key is one word"),
        (["set", "opnai"], KEY, 'did you mean "openai"'),
        (["remove", "openai"], "", "no key stored for 'openai'"),
    ],
)
def test_an_invalid_key_is_not_stored(
    swink: Any, file: Path, line: list[str], stdin: str, said: str
) -> None:
    done = swink("keys", *line, stdin=stdin)
    assert (done.returncode, said in done.stderr, file.exists()) == (2, True, False)
    assert KEY not in done.stderr


def test_a_readable_key_file_gets_a_notice_and_private_mode(swink: Any, file: Path) -> None:
    assert swink("keys", "set", "openai", stdin=KEY).returncode == 0
    file.chmod(0o644)
    assert f"chmod 600 '{file}'" in " ".join(swink("keys").stderr.split())
    assert swink("keys", "set", "groq", stdin=KEY).returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'openai = "{KEY}', "the file is not valid TOML"),
        (f'keys = ["{KEY}"]', "keys: expected a table"),
        ("[keys]\nopenai = 3", 'keys.openai: expected a key, or { place = "keyring" }'),
        (f'profiles = "{KEY}"', "profiles: expected a table"),
        (f'profiles.work = "{KEY}"', "profiles.work: expected a table"),
        (f'profiles.work.openai = ["{KEY}"]', "profiles.work.openai: expected a key, or"),
    ],
)
def test_an_invalid_file_is_named_without_its_content(
    swink: Any, file: Path, text: str, said: str
) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o600)
    done = swink("ask", "-m", "openai/any", "Hi")
    assert (done.returncode, str(file) in done.stderr, KEY in done.stderr) == (2, True, False)
    assert said in " ".join(done.stderr.split())
    assert file.read_text() == text


def test_a_keyring_holds_the_key_where_there_is_one(swink: Any, file: Path, tmp_path: Path) -> None:
    pytest.importorskip("keyring", reason="swink-cli[keyring] is not installed")
    site = tmp_path / "site"
    site.mkdir()
    (site / "ring.py").write_text(RING)
    kept = tmp_path / "ring.json"
    ring = {
        "PYTHONPATH": str(site), "PYTHON_KEYRING_BACKEND": "ring.Ring", "RING": str(kept),
        "PYTHONWARNINGS": "",
    }  # fmt: skip
    assert "keyring" in swink("keys", "set", "openai", stdin=KEY, **ring).stderr
    assert KEY not in file.read_text()
    assert json.loads(kept.read_text()) == {"swink openai": KEY}
    assert rows(swink("keys").stdout)[1:] == ["openai keyring"]
    with ChatService(["Here."]) as service:
        to = ("ask", "-m", "openai/any", "--base-url", service.base_url, "Hi")
        assert swink(*to, **ring).returncode == 0
        assert sent(service) == [f"Bearer {KEY}"]
    lost = swink(*to)
    assert "the keyring did not return the key of openai" in " ".join(lost.stderr.split())
    assert lost.returncode == 1
    assert swink("keys", "remove", "openai", **ring).returncode == 0
    assert json.loads(kept.read_text()) == {}
    done = swink("keys", "set", "openai", stdin=KEY, **ring, RING_IS_LOCKED="1")
    assert "notice: the keyring could not store it" in done.stderr
    assert KEY in file.read_text()
