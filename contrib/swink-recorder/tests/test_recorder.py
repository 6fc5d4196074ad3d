"""Every call in a folder or a SQLite file: whole, private, bounded, and never at a call's cost."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_core.providers import EventWriter
from swink_recorder import recorder as module
from swink_recorder.cassette import Cassette
from swink_recorder.documents import read_document
from swink_recorder.plugin import CassettePlugin, RecorderPlugin
from swink_recorder.recorder import Recorder, conversation
from swink_recorder.recording import RecordingError
from swink_recorder.store import (
    Entry,
    FolderStore,
    Keep,
    KeptConversation,
    SQLiteStore,
    open_store,
)
from swink_recorder.takes import write_takes
from swink_testing.acme import AcmeParser, AcmeProvider
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.observers import ObserverConformance

KEY = "sk-canary-0123456789"
SSE = {"Content-Type": "text/event-stream"}


class _Acme:
    name, group, value, dist = "acme", "swink.providers", "acme:AcmeProvider", None

    def load(self) -> type[AcmeProvider]:
        return AcmeProvider


def said(*texts: str, stop: bool = True) -> MemoryResponse:
    reads = [f'data: {{"text": "{text}"}}\n\n'.encode() for text in texts]
    return MemoryResponse([*reads, *[b'data: {"stop": "stop"}\n\n'] * stop], headers=SSE)


def busy() -> MemoryResponse:
    return MemoryResponse.of_json({"error": {"code": "busy", "message": "no"}}, 529)


def acme(*answers: Any, plugins: list[Any]) -> swink.Client:
    host = swink.Host(plugins, entry_points=[_Acme()], environ={})
    given = {"api_key": KEY, "base_url": "http://nowhere.invalid/v1"}
    policy = swink.RetryPolicy(base=0.0)
    return client_with(host=host, http=MemoryHTTPClient(*answers), retry=policy, **given)


@pytest.fixture(params=["calls", "calls.sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / "state" / request.param


async def ask(path: Path, *answers: Any, prompt: Any = "Hi", keep: Keep | None = None) -> None:
    recorder = Recorder(path, keep)
    client = acme(*answers, plugins=[recorder])
    async with client, client.stream("acme/large", prompt) as stream:
        async for _ in stream:
            pass
    await recorder.aclose()


def entries(path: Path) -> list[Entry]:
    return list(open_store(path).entries())


# -- what is kept ----------------------------------------------------------------------------------


async def test_a_call_is_kept_with_all_its_attempts(path: Path) -> None:
    await ask(path, busy(), said("Hel", "lo"), prompt="Grüße?")

    [entry] = entries(path)
    assert (entry.model, entry.outcome, entry.attempts) == ("acme/large", "done", 2)
    assert (entry.prompt, entry.answer) == ("Grüße?", "Hello")
    assert (entry.input, entry.output) == (1, 2)
    takes, call = read_document(open_store(path).read(entry.id), path)
    assert call["id"] == entry.id
    assert [take.recording.status for take in takes] == [529, 200]
    assert takes[1].recording.request.body == {"model": "large", "messages": 1}
    assert [data for _, data in takes[1].recording.pieces()] == [
        b'data: {"text": "Hel"}\n\n', b'data: {"text": "lo"}\n\n', b'data: {"stop": "stop"}\n\n',
    ]  # fmt: skip
    assert [event["type"] for _, event in takes[0].events] == ["start", "retry"]
    assert [event["type"] for _, event in takes[1].events] == [
        "start", "text_start", "text_delta", "text_delta", "text_end", "done",
    ]  # fmt: skip


async def test_failed_and_abandoned_calls_are_stored_too(path: Path) -> None:
    await ask(path, said("half", stop=False))
    recorder = Recorder(path)
    client = acme(said("one", "two"), plugins=[recorder])
    async with client, client.stream("acme/large", "Hi") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
    await recorder.aclose()
    assert {(entry.outcome, entry.answer) for entry in entries(path)} == {
        ("network", "half"), ("cancelled", "one"),
    }  # fmt: skip


class _RestartingParser(AcmeParser):
    def feed(self, frame: bytes, out: EventWriter) -> None:
        if frame == b'{"restart": true}':
            out.restart("the upstream was lost")
        else:
            super().feed(frame, out)


class _Restarting(AcmeProvider):
    """Acme behind a gateway that may send a second answer in the same body."""

    def parser(self, model: swink.Model) -> AcmeParser:
        return _RestartingParser()


async def test_an_answer_that_was_restarted_is_stored_without_the_discarded_text(
    path: Path,
) -> None:
    recorder = Recorder(path)
    host = swink.Host([recorder], entry_points=[], providers={"acme": _Restarting}, environ={})
    frames: list[dict[str, Any]] = [
        {"text": "old "}, {"restart": True}, {"text": "new "}, {"text": "one"}, {"stop": "stop"},
    ]  # fmt: skip
    body = b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames)
    http = MemoryHTTPClient(MemoryResponse([body], headers=SSE))
    given = {"api_key": KEY, "base_url": "http://nowhere.invalid/v1"}
    async with client_with(host=host, http=http, **given) as client:
        assert (await client.complete("acme/large", "Hi")).text == "new one"
    await recorder.aclose()

    [entry] = entries(path)
    assert (entry.answer, entry.outcome, entry.attempts) == ("new one", "done", 1)
    [take], _ = read_document(open_store(path).read(entry.id), path)
    assert take.failure is None
    said = [event["delta"] for _, event in take.events if event["type"] == "text_delta"]
    assert said == ["old ", "new ", "one"]


async def test_a_recorded_call_is_a_cassette(path: Path, tmp_path: Path) -> None:
    await ask(path, busy(), said("Hello"))
    [entry] = entries(path)
    cassette = tmp_path / "case.json"
    cassette.write_bytes(write_takes(*read_document(open_store(path).read(entry.id), path)))
    with Cassette(cassette, "none"):
        async with acme(plugins=[CassettePlugin()]) as client:
            assert (await client.complete("acme/large", "Hi")).text == "Hello"
            with pytest.raises(swink.InvalidRequest, match="the nearest differs"):
                await client.complete("acme/large", "Hi", temperature=1)


async def test_parallel_calls_of_several_clients_are_all_kept_and_apart(path: Path) -> None:
    await asyncio.gather(*(ask(path, said(f"{n}"), prompt=f"{n}") for n in range(12)))
    assert {(e.prompt, e.answer) for e in entries(path)} == {(f"{n}", f"{n}") for n in range(12)}


def test_a_store_in_the_home_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(swink.UsageError, match="~nobody-here/x: this home folder does not exist"):
        open_store("~nobody-here/x")


def test_words_are_found_in_prompts_and_answers(path: Path) -> None:
    asyncio.run(ask(path, said("The sky is blue"), prompt="Why?"))
    asyncio.run(ask(path, said("No"), prompt="Is the sea red?"))
    store = open_store(path)
    assert [e.prompt for e in store.search(["SKY", "why"])] == ["Why?"]
    assert [e.prompt for e in store.search(["the"])] == ["Is the sea red?", "Why?"]
    assert list(store.search(['sky" OR "sea'])) == []


@pytest.mark.parametrize("word", ["天空", "haus", "++", "C++", '"b"', "ÜBER", "x\ny"])
def test_a_part_of_a_word_and_punctuation_are_found(word: str, path: Path) -> None:
    asyncio.run(ask(path, said("Yes"), prompt='为什么天空是蓝色的? C++ "b" Hausbau über x\ny'))
    assert [e.answer for e in open_store(path).search([word])] == ["Yes"]


@pytest.mark.parametrize(
    ("write", "left"),
    [
        (lambda store: store.delete(next(store.entries()).id), []),
        (lambda store: store.prune(Keep(calls=0)), []),
        (lambda store: asyncio.run(ask(store.path, said("No"), prompt="Who?")), ["Who?", "Why?"]),
    ],
    ids=["delete", "prune", "add"],
)
def test_the_index_of_words_of_an_earlier_version_is_deleted(
    write: Any, left: list[str], tmp_path: Path
) -> None:
    store = SQLiteStore(tmp_path / "calls.db")
    asyncio.run(ask(store.path, said("The sky is blue"), prompt="Why?"))
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("CREATE VIRTUAL TABLE words USING fts5 (prompt, answer)")
        db.execute("INSERT INTO words (rowid, prompt, answer) VALUES (1, 'Why?', 'The sky')")
    assert [entry.prompt for entry in store.search(["blue"])] == ["Why?"]
    write(store)
    assert [entry.prompt for entry in store.entries()] == left
    with closing(sqlite3.connect(store.path)) as db:
        named = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'words%'"
        assert db.execute(named).fetchone() == (0,)


# -- conversations ---------------------------------------------------------------------------------


def test_a_conversation_is_kept_as_it_is_now_until_its_last_call_is_forgotten(path: Path) -> None:
    store, hour = open_store(path), "2026-11-22T1{}:00:00.000+00:00"
    assert list(store.conversations()) == []
    for id, at in (("one", 1), ("two", 2), ("one", 3)):
        token = conversation.set(id)
        asyncio.run(ask(path, said("Hello")))
        conversation.reset(token)
        kept = KeptConversation(id=id, at=hour.format(at), models=["acme/large"], messages=at)
        store.keep_conversation(kept, f'{{"at": {at}}}'.encode())
    assert [(kept.id, kept.messages) for kept in store.conversations()] == [("one", 3), ("two", 2)]
    assert store.read_conversation("one") == b'{"at": 3}'
    new, old, older = entries(path)
    assert [entry.conversation for entry in (new, old, older)] == ["one", "two", "one"]
    for id, left in ((new.id, {"one", "two"}), (old.id, {"one"}), (older.id, set())):
        store.delete(id)
        assert {kept.id for kept in store.conversations()} == left
    for absent in ("one", "three"):
        with pytest.raises(FileNotFoundError):
            store.read_conversation(absent)


# -- private ---------------------------------------------------------------------------------------


async def test_only_the_owner_can_read_it(path: Path) -> None:
    await ask(path, said("Hello"))
    kept = KeptConversation(id="one", at=entries(path)[0].at, models=["a/b"], messages=1)
    open_store(path).keep_conversation(kept, b"{}")
    files = [path] if path.is_file() else list(path.iterdir())  # noqa: ASYNC240
    assert files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_credentials_in_nested_fields_of_extra_are_in_no_file(path: Path) -> None:
    headers = {"Authorization": "Bearer mcp-canary-1"}
    tool = {"type": "mcp", "authorization": "mcp-canary-2", "headers": headers}
    recorder = Recorder(path)
    async with acme(said("Hello"), plugins=[recorder]) as client:
        await client.complete("acme/large", "Hi", extra={"tools": [tool], "user": "someone"})
    await recorder.aclose()
    files = [path] if path.is_file() else list(path.iterdir())  # noqa: ASYNC240
    assert any(b"someone" in file.read_bytes() for file in files)
    assert not any(b"mcp-canary" in file.read_bytes() for file in files)


@pytest.mark.parametrize("size", [2, 7, 20])
async def test_a_key_is_nowhere_though_the_answer_has_it_in_pieces(size: int, path: Path) -> None:
    pieces = [KEY[at : at + size] for at in range(0, len(KEY), size)]
    await ask(path, said("It is ", *pieces), prompt=f"Is it {KEY}?")
    files = [path] if path.is_file() else list(path.iterdir())  # noqa: ASYNC240
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    [entry] = entries(path)
    assert KEY not in entry.answer + entry.prompt
    takes, _ = read_document(open_store(path).read(entry.id), path)
    texts = [e["delta"] for _, e in takes[0].events if e["type"] == "text_delta"]
    assert "".join(texts) == "It is " + "*" * len(KEY)


# -- bounded ---------------------------------------------------------------------------------------


def _keep(path: Path, number: int, days_ago: float, size: int = 1000) -> None:
    at = datetime.now(UTC) - timedelta(days=days_ago)
    entry = Entry(id=f"{number:012}", at=at.isoformat(), model="a/b", outcome="done")
    store = open_store(path)
    call = json.dumps({"id": entry.id, "at": entry.at, "model": "a/b", "outcome": "done"})
    store.add([(entry, [b'{"call": %s}\n' % call.encode(), b"x" * size])])
    if path.is_dir():
        for file in path.glob(f"*-{entry.id}.call"):
            os.utime(file, (at.timestamp(), at.timestamp()))


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("", [0, 1, 2, 3]), ("10d", [0, 1]), ("2", [0, 1]), ("0.0025MB", [0, 1]), ("3,1d", [0]),
    ],
)  # fmt: skip
def test_the_oldest_calls_go_first(words: str, left: list[int], path: Path) -> None:
    for number in (3, 1, 0, 2):
        _keep(path, number, days_ago=number * 9.0)
    open_store(path).prune(Keep.of(words))
    assert [int(entry.id) for entry in entries(path)] == left


async def test_the_recorder_forgets_by_itself(path: Path) -> None:
    _keep(path, 1, days_ago=31)
    await ask(path, said("Hello"))
    assert [entry.prompt for entry in entries(path)] == ["Hi"]


@pytest.mark.parametrize("words", ["soon", "1.5", "3 weeks"])
def test_words_that_say_no_limit_are_refused(words: str) -> None:
    with pytest.raises(swink.UsageError, match="invalid limit"):
        Keep.of(words)


# -- whatever happens ------------------------------------------------------------------------------

WRITER = """
import asyncio, sys
import swink_core as swink
from swink_recorder.recorder import Recorder

async def main():
    async with swink.Client(plugins=[Recorder(sys.argv[1])]) as client:
        while True:
            await client.complete("echo/echo", "word " * 2000)
            print("asked", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("asked", [3, 9])
def test_data_written_before_a_kill_can_be_read(asked: int, path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(asked):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    for entry in entries(path):
        takes, _ = read_document(open_store(path).read(entry.id), path)
        assert takes[0].events[-1][1]["type"] == "done"
    asyncio.run(ask(path, said("after")))
    assert "after" in {entry.answer for entry in entries(path)}
    if path.is_file():
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_an_unwritable_store_is_reported_once_and_fails_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    recorder = Recorder(in_the_way / "calls.sqlite")
    async with acme(said("one"), said("two"), plugins=[recorder]) as client:
        for text in ("one", "two"):
            assert (await client.complete("acme/large", "Hi")).text == text
    await recorder.aclose()
    told = [r for r in caplog.records if r.name == module.__name__]
    assert len(told) == 1
    assert "calls are not recorded in" in told[0].getMessage()


async def test_calls_that_cannot_be_converted_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 1)
    monkeypatch.setattr(module, "request_of", lambda *_: {}["missing"])
    recorder = Recorder(tmp_path / "calls")
    async with acme(said("one"), said("two"), plugins=[recorder]) as client:
        for _ in range(2):
            await client.complete("acme/large", "Hi")
    await recorder.aclose()
    assert caplog.text.count("calls are not recorded in") == 1


async def test_a_damaged_file_is_not_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "calls.sqlite"
    path.write_bytes(b"no database " * 100)
    await ask(path, said("one"))
    assert "file is not a database" in caplog.text
    assert path.read_bytes() == b"no database " * 100


async def test_a_file_that_another_process_writes_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    await ask(path, said("one"))
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    recorder = Recorder(path)
    async with acme(said("two"), plugins=[recorder]) as client:
        assert (await client.complete("acme/large", "Hi")).text == "two"  # which waits for nobody
    assert len(entries(path)) == 1
    other.close()
    await recorder.aclose()
    assert len(entries(path)) == 2


async def test_calls_that_end_faster_than_they_are_written_are_dropped_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    path = tmp_path / "calls.sqlite"
    await ask(path, said("first"))
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    recorder = Recorder(path)
    async with acme(*[said("x") for _ in range(9)], plugins=[recorder]) as client:
        for _ in range(9):
            await client.complete("acme/large", "Hi")
    other.close()
    await recorder.aclose()
    assert 2 <= len(entries(path)) <= 3
    assert caplog.text.count("some are not recorded") == 1
    recorder._write_all()  # nothing waits any more
    assert "full" not in recorder._told


# -- on and off ------------------------------------------------------------------------------------


@pytest.mark.parametrize("environ", [{}, {"SWINK_RECORD": ""}, {"SWINK_RECORD": "off"}])
def test_it_is_off_unless_the_environment_says_where(environ: dict[str, str]) -> None:
    plugin = RecorderPlugin(environ)
    assert not isinstance(plugin, Recorder)
    assert [name for name in dir(plugin) if not name.startswith("_")] == []


def test_a_wrong_setting_leaves_it_out_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SWINK_RECORD", str(tmp_path / "calls"))
    monkeypatch.setenv("SWINK_RECORD_KEEP", "for ever")
    assert swink.complete_sync("echo/echo", "Hi").text == "Hi"
    assert "plugin recorder is disabled" in caplog.text
    assert "30d 500MB 10000" in caplog.text


def test_every_call_of_a_program_is_recorded_where_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setenv("SWINK_RECORD", str(path))
    for word in ("one", "two"):
        swink.complete_sync("echo/echo", word)
    assert [entry.answer for entry in entries(path)] == ["two", "one"]


class TestConformance(ObserverConformance):
    @pytest.fixture(autouse=True)
    def _away(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.CRITICAL)
        TestConformance.observer = staticmethod(lambda: Recorder(tmp_path / "calls.sqlite"))

    observer = staticmethod(lambda: Recorder(os.devnull))


def test_an_id_may_be_read_from_a_path_that_is_not_there(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "calls.db")
    assert list(store.entries()) == []
    with pytest.raises(FileNotFoundError):
        store.read("a")


async def _damaged(path: Path) -> None:
    await ask(path, said("one"))
    with path.open("r+b") as file:  # all but the list of tables
        size = file.seek(0, os.SEEK_END)
        file.seek(16_384)
        file.write(b"A" * (size - 16_384))


async def _of_others(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE calls (phone TEXT)")


async def _misread(path: Path) -> None:
    await ask(path, said("one"))
    open_store(path).keep_conversation(TALK, b"{}")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE calls SET entry = '{}'")
        db.execute("UPDATE conversations SET kept = '[]'")


TALK = KeptConversation(id="a", at="2026-11-22T12:00:00.000+00:00", models=[], messages=1)


@pytest.mark.parametrize("made", [_damaged, _of_others, _misread])
async def test_a_file_that_sqlite_cannot_read_is_named(made: Any, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "calls.db")
    await made(store.path)
    for use in (store.entries, store.conversations):
        with pytest.raises(RecordingError, match=r"calls\.db: ") as caught:
            list(use())
        assert caught.value.resolution


async def test_so_is_one_that_another_program_does_not_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_recorder.sqlite_store.BUSY_SECONDS", 0.0)
    store = SQLiteStore(tmp_path / "calls.db")
    await ask(store.path, said("one"))
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("BEGIN IMMEDIATE")
        for use in (
            lambda: store.keep_conversation(TALK, b"{}"),
            lambda: store.prune(Keep(calls=0)),
            lambda: store.delete(entries(store.path)[0].id),
        ):
            with pytest.raises(RecordingError, match="database is locked") as caught:
                use()
            assert "no other program locks it" in (caught.value.resolution or "")


def test_incomplete_files_are_neither_listed_nor_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path)
    replace, processes = Path.replace, iter((1, 2))

    def with_another_in_between(beside: Path, to: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        assert list(store.conversations()) == []
        store.keep_conversation(TALK, b"[]")
        return replace(beside, to)

    monkeypatch.setattr(os, "getpid", lambda: next(processes))
    monkeypatch.setattr(Path, "replace", with_another_in_between)
    store.keep_conversation(TALK, b"{}")
    assert store.read_conversation(TALK.id) == b"{}"
    assert [path.name for path in tmp_path.iterdir()] == ["a.conversation"]


@pytest.mark.parametrize(
    "told", [{"id": "../../b"}, {"id": "*"}, {"id": "other"}, {"at": "yesterday"}, {"model": 5}]
)
def test_a_file_of_another_format_is_ignored(told: dict[str, Any], tmp_path: Path) -> None:
    said = {"id": "a", "at": TALK.at, "model": "acme/large", "outcome": "done"} | told
    kept = {"id": "a", "at": TALK.at, "models": [], "messages": 1} | told
    if "model" in told:
        kept["models"] = 5
    (tmp_path / "20261122T120000000-a.call").write_text(json.dumps({"call": said}) + "\n{}\n")
    (tmp_path / "a.conversation").write_text(json.dumps(kept) + "\n{}\n")
    store = FolderStore(tmp_path)
    assert [*store.entries(), *store.conversations()] == []


WRITES = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="the locks are those of POSIX")
def test_what_one_thread_writes_is_locked_while_another_opens_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_recorder.sqlite_store.BUSY_SECONDS", 0.0)
    store = SQLiteStore(tmp_path / "calls.db")
    asyncio.run(ask(store.path, said("one")))
    with closing(sqlite3.connect(store.path)) as of_a_thread:
        of_a_thread.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordingError, match="database is locked"):
            store.keep_conversation(TALK, b"{}")
        other = [sys.executable, "-c", WRITES, str(store.path)]
        assert subprocess.check_output(other) == b"database is locked\n"
