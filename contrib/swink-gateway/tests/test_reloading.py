"""Reloading of the configuration file while the gateway serves."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from serving import ask, serving

from swink_gateway.policy.config import Source
from swink_gateway.policy.routing import usable
from swink_gateway.serving.reloading import LOOK_SECONDS, Reloader
from swink_gateway.serving.server import Gateway
from swink_testing.clock import ManualClock
from swink_testing.command_line import swink_command

SLOW = '[routes.best]\ntiers = "echo/slow"\n'
OTHER = '[routes.other]\ntiers = "echo/echo"\n'
BROKEN = '[routes.best]\ntires = "echo/echo"\n'
KEYED = '[keys.a]\nkey = "${A}"\n'

WORDS = "one two three four five"


class Watched:
    """A gateway with a watched configuration file."""

    def __init__(self, gateway: Any, file: Path, text: str) -> None:
        self.gateway, self.file = gateway, file
        self.clock, self.told = ManualClock(), list[str]()
        self.kept = list[str]()
        source = Source(str(file), text)
        self.reloader = Reloader(
            gateway.client, source, {}, gateway.reconfigure, self.told.append, self.clock,
            keep=self.kept.append,
        )  # fmt: skip

    async def write(self, text: str) -> None:
        replacement = self.file.with_suffix(".new")
        replacement.write_text(text)
        replacement.replace(self.file)
        await self.look()

    async def look(self) -> None:
        for _ in range(2):  # a file is loaded if two checks see the same
            await self.clock.advance(LOOK_SECONDS)

    async def names(self) -> list[str]:
        rows = (await ask(self.gateway, "/v1/models")).json["data"]
        return [row["id"] for row in rows if row["owned_by"] == "swink"]


@asynccontextmanager
async def watched(folder: Path, text: str) -> AsyncIterator[Watched]:
    file = folder / "team.toml"
    file.write_text(text)
    async with serving(routes={"given": ["echo/echo"]}) as gateway:
        one = Watched(gateway, file, text)
        with one.reloader.watching():
            await asyncio.sleep(0)
            one.reloader.read()
            yield one


async def test_a_changed_file_is_used_and_an_invalid_one_is_reported(tmp_path: Path) -> None:
    async with watched(tmp_path, SLOW) as one:
        assert await one.names() == ["given", "best"]
        await one.write(OTHER)
        assert await one.names() == ["given", "other"]
        assert one.reloader.at == one.clock.now().timestamp()
        await one.write(BROKEN)
        assert await one.names() == ["given", "other"]
        assert (one.reloader.is_current, one.reloader.failures) == (False, 1)
        assert "team.toml:2: routes.best.tires: unknown name 'tires'" in one.told[-1]
        one.file.unlink()
        await one.look()
        assert "No such file" in one.told[-1]
        await one.write(SLOW)
        assert await one.names() == ["given", "best"]
        assert (one.reloader.is_current, one.reloader.failures) == (True, 2)
        said = len(one.told)
        await one.clock.advance(10 * LOOK_SECONDS)
        assert len(one.told) == said  # unchanged
        assert one.kept == [SLOW, OTHER, SLOW]


async def test_a_message_that_cannot_be_delivered_changes_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def tell(text: str) -> None:
        raise BrokenPipeError

    async with watched(tmp_path, SLOW) as one:
        one.reloader._tell = tell
        await one.write(OTHER)
        assert (one.reloader.is_current, one.reloader.failures) == (True, 0)
        await one.write(BROKEN)
        assert (one.reloader.is_current, one.reloader.failures) == (False, 1)
        await one.write(SLOW)
        assert (one.reloader.is_current, one.reloader.failures) == (True, 1)
        assert await one.names() == ["given", "best"]
        assert one.kept == [SLOW, OTHER, SLOW]
    assert caplog.text.count("was not delivered: BrokenPipeError()") == 3


async def test_an_unexpected_error_counts_as_an_invalid_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def use(config: Any) -> None:
        raise RuntimeError("broken")

    async with watched(tmp_path, SLOW) as one:
        works, one.reloader._use = one.reloader._use, use
        await one.write(OTHER)
        assert (one.reloader.is_current, one.reloader.failures) == (False, 1)
        assert "stays in use" in one.told[-1]
        assert "unexpected RuntimeError('broken')" in one.told[-1]
        one.reloader._use = works
        await one.write(SLOW + OTHER)
        assert await one.names() == ["given", "best", "other"]
        assert one.reloader.is_current
    assert "Traceback" in caplog.text


async def test_an_error_after_a_reload_does_not_end_the_watch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def keep(text: str) -> None:
        raise RuntimeError("broken")

    async with watched(tmp_path, SLOW) as one:
        one.reloader._keep = keep
        for text in (OTHER, SLOW):
            await one.write(text)
        assert await one.names() == ["given", "best"]
    assert caplog.text.count("an unexpected error while") == 2


async def test_a_file_without_access_is_reported_and_the_watch_goes_on(tmp_path: Path) -> None:
    async with watched(tmp_path, SLOW) as one:
        one.file.unlink()
        one.file.symlink_to("a" * 300)  # stat fails for any user, as without access to the folder
        await one.look()
        assert (one.reloader.is_current, one.reloader.failures) == (False, 1)
        assert "name too long" in one.told[-1]
        await one.write(OTHER)
        assert await one.names() == ["given", "other"]


@pytest.mark.parametrize("text", [OTHER, BROKEN, None])
async def test_a_gateway_that_starts_with_another_text_reads_the_file(
    tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "team.toml"
    if text is not None:
        file.write_text(text)
    async with serving() as gateway:
        one = Watched(gateway, file, SLOW)
        assert not one.reloader.is_current
        with one.reloader.watching():
            await asyncio.sleep(0)
            await one.look()
        assert len(one.told) == 1
        assert one.reloader.is_current == (text == OTHER)
        assert one.kept == ([OTHER] if text == OTHER else [])


async def test_an_active_answer_continues_after_its_route_is_removed(tmp_path: Path) -> None:
    async with watched(tmp_path, SLOW) as one, aiohttp.ClientSession() as session:
        said = {"model": "best", "stream": True, "messages": [{"role": "user", "content": WORDS}]}
        url = f"{one.gateway.url}/v1/chat/completions"
        async with session.post(url, json=said) as response:
            first = await response.content.readany()
            await one.write(OTHER)
            assert await one.names() == ["given", "other"]
            body = first + await response.content.read()
        assert body.endswith(b"data: [DONE]\n\n")
        assert all(word.encode() in body for word in WORDS.split())
        async with session.post(url, json=said) as response:
            assert response.status == 404


OPENS = [
    ("0.0.0.0", SLOW, (), "no key is set"),
    ("127.0.0.1", SLOW, (), "To run without keys, restart the gateway."),  # possibly behind a proxy
    ("127.0.0.1", "", (), "the new configuration has no keys"),
    ("127.0.0.1", "", ["its own"], None),
]


@pytest.mark.parametrize(("host", "text", "own", "why"), OPENS)
async def test_a_reload_cannot_remove_all_keys(
    tmp_path: Path, host: str, text: str, own: Sequence[str], why: str | None
) -> None:
    file = tmp_path / "team.toml"
    file.write_text(KEYED)
    async with serving() as other:
        config = usable(other.client, Source.of(file), {"A": "key-a"})
        gateway = Gateway(other.client, host=host, config=config, keys=own)
        told = list[str]()
        source = Source(str(file), KEYED)
        reloader = Reloader(other.client, source, {}, gateway.reconfigure, told.append)
        file.write_text(text)
        reloader.read()
        assert reloader.is_current == (why is None)
        assert (why or "reloaded and in use") in told[-1]
        assert bool(gateway.routing.config.keys) == (why is not None)
        assert gateway.guard.owner({}, {}) is None


async def test_a_partially_written_file_is_not_loaded(tmp_path: Path) -> None:
    async with watched(tmp_path, SLOW) as one:
        text = OTHER
        for number in range(3):
            one.file.write_text(text := f"{text}[routes.r{number}]\ntiers = 'echo/echo'\n")
            await one.clock.advance(LOOK_SECONDS)
            assert await one.names() == ["given", "best"]
        await one.clock.advance(LOOK_SECONDS)
        assert await one.names() == ["given", "other", "r0", "r1", "r2"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
async def test_the_command_serves_a_file_and_reloads_it_on_sighup(
    tmp_path: Path, swink_environment: dict[str, str]
) -> None:
    file = tmp_path / "team.toml"
    file.write_text(SLOW + '[keys.a]\nkey = "${SWINK_GATEWAY_KEY}"\noperator = true\n')
    served = await asyncio.create_subprocess_exec(
        *swink_command("gateway", "--port", "0", "--config", str(file)),
        env={**swink_environment, "SWINK_GATEWAY_KEY": "key-a"},
        stderr=subprocess.PIPE,
    )
    assert served.stderr is not None
    lines = [(await served.stderr.readline()).decode() for _ in range(2)]
    url = lines[0].split()[-1]
    try:
        state = os.stat(file)
        file.write_text(file.read_text().replace("best", "beta"))
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))  # it looks unchanged
        served.send_signal(signal.SIGHUP)
        assert b"is reloaded and in use" in await served.stderr.readline()
        headers = {"x-api-key": "key-a"}
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.get(f"{url}/v1/models") as response:
                assert (await response.json())["first_id"] == "beta"
            async with session.get(f"{url}/metrics") as response:
                assert "swink_gateway_config_is_current 1.0" in await response.text()
        file.write_text(BROKEN)
        served.send_signal(signal.SIGHUP)
        told = [(await served.stderr.readline()).decode() for _ in range(2)]
        assert told[0] == "the previous configuration stays in use:\n"  # and once
        assert "team.toml:1: routes.best.tiers: is missing" in told[1]
    finally:
        served.terminate()
        await served.wait()


def test_check_prints_a_summary(swink: Any, tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text(
        SLOW.replace(
            '"echo/slow"', '[["echo/slow", { model = "echo/echo", weight = 2 }], "echo/a"]'
        )
        + '[[rules]]\nwhen = { thinking = true, tools = false, longer_than = 9_000 }\nto = "best"\n'
        + f'[keys.a]\nkey = "sha256:{"0f" * 32}"\nmodels = ["b*"]\ndollars_per_day = 2.5\n'
        + "tokens_per_minute = 2_000_000\n"
    )
    done = swink("gateway", "--check", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    shown = [line.split() for line in done.stdout.splitlines()]
    assert ["best", "echo/slow", "(1)", "|", "echo/echo", "(2),", "then", "echo/a"] in shown
    assert ["thinking,", "no", "tools,", "longer", "than", "9,000", "tokens", "best"] in shown
    said = [" ".join(row) for row in shown]
    assert "a b*, 2,000,000 tokens a minute, 2.5 US dollars a day" in said
    assert "0f0f" not in done.stdout


NAMES = {
    "claud-*": False, "echo/*": True, "ech*/any": True, "ecoh/*": False, "best": True,
    "ech*": True, "bets": False, "gpt-*": True,
}  # fmt: skip
"""Patterns of a key, and whether a known or possible name matches them."""


def test_check_reports_patterns_that_match_no_model(swink: Any, tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    rule = '[[rules]]\nwhen = { models = "gpt-*" }\nto = "best"\n'
    file.write_text(f'{SLOW}{rule}[keys.a]\nkey = "sha256:{"0f" * 32}"\nmodels = {[*NAMES]}\n')
    done = swink("gateway", "--check", str(file))
    told = [line for line in done.stdout.splitlines() if "matches no route" in line]
    assert done.returncode == 0
    assert [line.rpartition("'")[0].rpartition("'")[2] for line in told] == [
        name for name, is_there in NAMES.items() if not is_there
    ]


STORES = [
    ("redis", "url = 'redis://:pass/word@localhost'", "3: store.url: limits cannot be shared: the"),
    ("redis", "url = 'localhost:6379'", "such as redis://localhost:6379.)"),
    ("redis", "url = 'redis://localhost?pasword=word'", "not the address of a Redis server"),
    ("redis", "url = 'redis://localhost/notadb'", "not the address of a Redis server"),
    ("redis", "url = ' redis://localhost'", "not the address of a Redis server"),
    ("redis", "url = 'redis://localhost'\npath = 'absent'", "4: store.path: a folder that is"),
    ("sqlite", "path = 'absent/ledger.db'", "3: store.path: a file in a folder that is there"),
    ("sqlite", "path = '/absent/ledger.db'", "was expected; /absent does not exist"),
    ("sqlite", "path = '/dev/null/ledger.db'", "was expected; /dev/null is not a folder"),
    ("sqlite", "path = '.'", "3: store.path: a file that can be written was expected"),
]


@pytest.mark.parametrize(("engine", "where", "told"), STORES, ids=[told for _, _, told in STORES])
def test_check_validates_the_store_without_connecting(
    swink: Any, tmp_path: Path, engine: str, where: str, told: str
) -> None:
    pytest.importorskip("redis")
    file = tmp_path / "team.toml"
    file.write_text(f"[store]\nengine = '{engine}'\n{where}\n")
    done = swink("gateway", "--check", str(file))
    said = " ".join(done.stderr.split())
    assert (done.returncode, done.stdout, told in said, "word" in said) == (2, "", True, False)


def test_check_lists_what_it_did_not_check(swink: Any, tmp_path: Path) -> None:
    pytest.importorskip("redis")
    file, ledger = tmp_path / "team.toml", tmp_path / "ledger.db"
    file.write_text("[store]\nengine = 'redis'\nurl = 'redis://127.0.0.1:9'\n")
    done = swink("gateway", "--check", str(file))
    assert (
        "not checked: the Redis server, and providers, their keys and their models\n" in done.stdout
    )
    file.write_text(f"[store]\nengine = 'sqlite'\npath = '{ledger}'\n")
    assert "\nnot checked: providers, their" in swink("gateway", "--check", str(file)).stdout
    assert not ledger.exists()


def test_check_reports_faults_of_all_kinds_at_once(swink: Any, tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text(
        "[routes.best]\n"
        "tiers = [[{ model = 'echo/echo', weight = 0 }, 'ecoh/x']]\n"
        "[store]\n"
        "engine = 'sqlite'\n"
        "path = 'absent/ledger.db'\n"
    )
    said = swink("gateway", "--check", str(file)).stderr
    told = [line.partition("team.toml:")[2].split(": ")[:2] for line in said.splitlines()]
    assert [line for line in told if line != [""]] == [
        ["2", "routes.best.tiers[0][0].weight"],
        ["2", "routes.best.tiers[0][1]"],
        ["5", "store.path"],
    ]


@pytest.mark.parametrize("store", ["engine = 'mysql'\npath = 'ledger.db'", "engine = 'redis'"])
def test_check_reports_each_fault_once(swink: Any, tmp_path: Path, store: str) -> None:
    file = tmp_path / "team.toml"
    file.write_text(f"[store]\n{store}\n")
    assert swink("gateway", "--check", str(file)).stderr.count("team.toml:") == 1


def test_check_reports_all_faults_and_exits_like_a_usage_error(swink: Any, tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    file.write_text(BROKEN + '[keys.a]\nkey = "${NONE}"\n')
    done = swink("gateway", "--check", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "team.toml:2: routes.best.tires" in done.stderr
    assert "team.toml:4: keys.a.key: the environment variable 'NONE' is not set" in done.stderr
