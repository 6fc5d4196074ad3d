"""The journal: one suite for each engine."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from errno import ENOSPC
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_batch import Answer, Failed
from swink_batch.answers import Id, read_answer
from swink_batch.forms import digest, key_of
from swink_batch.journal import FileEngine, Index, Journal, SQLiteEngine, engine_of
from swink_core import SwinkError, UsageError

JOB = {"models": ["echo/echo"], "options": {"max_tokens": 5}}


@pytest.fixture(params=["journal", "journal.sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def opened(path: Path, shard: str = "all") -> Journal:
    return Journal(engine_of(path, shard), JOB)


def add(journal: Journal, answer: Answer, check: int) -> None:
    journal.add(key_of(answer.id), check, answer)


def text(journal: Journal, id: str, check: int) -> str:
    kept = journal.kept(key_of(id), check)
    assert kept is not None
    return read_answer(kept.line).text


def test_added_lines_are_there_after_reopening(path: Path) -> None:
    journal = opened(path)
    add(journal, Answer(id="a", text="line\nbreak ü", cost=0.5), 7)
    add(journal, Answer(id="b", error=Failed("timeout", "late"), cost=0.25), 8)
    journal.close()
    again = opened(path)
    assert (again.charge.cost, again.requests) == (0.75, 2)
    assert text(again, "a", 7) == "line\nbreak ü"
    assert again.kept(key_of("c"), 7) is None
    kept = [again.kept(key_of(id), check) for id, check in (("a", 7), ("a", 6), ("b", 8), ("c", 0))]
    assert [each and (each.failure or "answered") for each in kept] == [
        "answered",
        None,
        "timeout",
        None,
    ]
    again.close()


def test_a_later_answer_takes_the_place_of_an_earlier_one(path: Path) -> None:
    journal = opened(path)
    for said in ("old", "new"):
        add(journal, Answer(id="a", text=said), 1)
    journal.close()
    again = opened(path)
    assert text(again, "a", 1) == "new"
    again.close()


@pytest.mark.parametrize(
    "writers", [("all", "1-of-2", "all"), ("1-of-2", "all", "1-of-2"), ("all", "1-of-2", "2-of-2")]
)
@pytest.mark.parametrize("check", [7, 8], ids=["the same row", "a changed row"])
def test_the_answer_of_the_latest_run_counts_whichever_writer_has_it(
    path: Path, writers: tuple[str, str, str], check: int
) -> None:
    failed, answered, reader = writers
    with closing(opened(path, failed)) as journal:
        add(journal, Answer(id="a", error=Failed("network", "down")), 7)
    with closing(opened(path, answered)) as journal:
        add(journal, Answer(id="a", text="paid"), check)
    for _ in range(2):
        with closing(opened(path, reader)) as journal:
            assert text(journal, "a", check) == "paid"
            add(journal, Answer(id="b", text="another"), 7)
    with closing(opened(path, failed)) as journal:
        add(journal, Answer(id="a", text="newer"), check)
    with closing(opened(path, answered)) as journal:
        assert text(journal, "a", check) == "newer"


def test_writers_see_earlier_lines_of_other_writers(path: Path) -> None:
    first = opened(path, "1-of-2")
    add(first, Answer(id="a", text="first"), 1)
    second = opened(path, "2-of-2")
    assert second.kept(key_of("a"), 1)
    add(second, Answer(id="b", text="second"), 1)
    for journal in (first, second):
        journal.close()
    third = opened(path)
    assert [text(third, id, 1) for id in ("a", "b")] == ["first", "second"]
    third.close()


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("runs.db", SQLiteEngine),
        ("runs.sqlite", SQLiteEngine),
        ("runs.sqlite3", SQLiteEngine),
        ("runs", FileEngine),
        ("sqlite3", FileEngine),
        ("runs.sqlite3.journal", FileEngine),
        ("folder.sqlite3", FileEngine),
    ],
)
def test_a_name_says_the_engine_but_a_folder_is_one(
    name: str, engine: type, tmp_path: Path
) -> None:
    (tmp_path / "folder.sqlite3").mkdir()
    with closing(engine_of(tmp_path / name)) as found:
        assert type(found) is engine


def test_a_journal_that_stays_open_counts_at_each_reading_what_was_added(path: Path) -> None:
    journal = opened(path)
    for id, cost in (("a", 5.0), ("b", 2.0)):
        add(journal, Answer(id=id, cost=cost), 7)
    other = opened(path, "other")
    add(other, Answer(id="c", cost=1.0), 7)
    for _ in range(2):
        journal.read()
        assert (journal.charge.cost, journal.requests) == (8.0, 3)
    for each in (journal, other):
        each.close()


def test_a_journal_does_not_need_posix(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pread", raising=False)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for number in range(2):
        journal = opened(path)
        add(journal, Answer(id=f"r{number}", text="x" * 5000), number)
        assert [len(text(journal, f"r{n}", n)) for n in range(number + 1)] == [5000] * (number + 1)
        journal.close()


def test_threads_may_read_lines_at_a_time(path: Path) -> None:
    engine = engine_of(path)
    places = {engine.append(b"%d" % n * 300): b"%d" % n * 300 for n in range(100)}
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            assert [*threads.map(engine.read, places)] == [*places.values()]
    engine.close()


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text())
def test_an_id_is_found_again_whatever_its_type(id: Id) -> None:
    with TemporaryDirectory() as folder:
        with closing(opened(Path(folder))) as journal:
            journal.add(key_of(id), 7, Answer(id=id))
        with closing(opened(Path(folder))) as journal:
            kept = journal.kept(key_of(id), 7)
            assert kept is not None
            assert read_answer(kept.line).id == id


def test_a_file_that_was_cut_at_any_byte_has_all_whole_lines(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal")
    for number in range(3):
        add(journal, Answer(id=f"r{number}", text="x" * 20), 1)
    journal.close()
    [file] = (tmp_path / "journal").iterdir()
    whole = file.read_bytes()
    for cut in (*range(len(whole) - 70, len(whole) + 1), 0, 1, whole.index(b"\n")):
        file.write_bytes(whole[:cut])
        again = opened(tmp_path / "journal")
        there = [number for number in range(3) if again.kept(key_of(f"r{number}"), 1)]
        assert there == list(range(max(0, whole[:cut].count(b"\n") - 1)))
        add(again, Answer(id="last"), 1)
        again.close()
        third = opened(tmp_path / "journal")
        assert third.kept(key_of("last"), 1)
        third.close()


def test_a_journal_without_answers_belongs_to_no_job(path: Path) -> None:
    Journal(engine_of(path), {"models": ["echo/ehco"]}).close()
    journal = opened(path)
    add(journal, Answer(id="a"), 7)
    journal.close()
    with pytest.raises(UsageError, match="models was"):
        Journal(engine_of(path), {"models": ["echo/ehco"]})


def test_an_empty_new_folder_is_removed(tmp_path: Path) -> None:
    new, shared, own = tmp_path / "new", tmp_path / "shared", tmp_path / "own"
    FileEngine(new).close()
    with closing(FileEngine(shared, "1-of-2")), closing(FileEngine(shared, "2-of-2")) as second:
        second.append(b"kept")
    own.mkdir()
    FileEngine(own).close()
    assert not new.exists()
    assert [path.name for path in shared.iterdir()] == ["2-of-2.journal"]
    assert own.exists()


def test_a_file_that_is_taken_away_before_it_is_locked_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    own = tmp_path / "all.journal"
    monkeypatch.setattr(fcntl, "flock", lambda file, operation: own.unlink())
    with pytest.raises(UsageError, match="another process is writing"):
        FileEngine(tmp_path)


def test_a_disk_that_fills_in_the_middle_of_a_line_leaves_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 0

    def write(file: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(ENOSPC, "No space left on device")
        room, written = 0, os_write(file, data[:room])
        return written

    journal, os_write = opened(tmp_path / "journal"), os.write
    add(journal, Answer(id="a", text="one"), 7)
    monkeypatch.setattr(os, "write", write)
    room = 10
    with pytest.raises(SwinkError, match=r"all\.journal: No space left on device"):
        add(journal, Answer(id="b", text="two"), 7)
    room = 1000
    add(journal, Answer(id="c", text="three"), 7)
    journal.close()
    again = opened(tmp_path / "journal")
    assert [text(again, id, 7) for id in ("a", "c")] == ["one", "three"]
    assert again.kept(key_of("b"), 7) is None
    again.close()


def test_a_database_that_cannot_be_written_is_named_and_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = opened(path)
    add(journal, Answer(id="a", text="one"), 7)
    with closing(sqlite3.connect(path)) as db, db:
        full = "BEFORE INSERT ON lines BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
        db.execute(f"CREATE TRIGGER full {full}")
    with pytest.raises(SwinkError, match=r"journal\.sqlite: database or disk is full"):
        add(journal, Answer(id="b", text="two"), 7)
    journal.close()
    again = opened(path)
    assert text(again, "a", 7) == "one"
    assert again.kept(key_of("b"), 7) is None
    again.close()


@pytest.mark.parametrize("line", [b"what is this\n", b'{"broken\n', b"{}\n"])
def test_a_journal_that_something_else_wrote_to_is_refused(line: bytes, tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal")
    journal.begin()
    journal.close()
    [file] = (tmp_path / "journal").iterdir()
    file.write_bytes(file.read_bytes() + line)
    with pytest.raises(SwinkError, match="line 2 is no answer"):
        opened(tmp_path / "journal")


def test_a_damaged_line_is_named_with_its_file_and_its_number_there(tmp_path: Path) -> None:
    for shard in ("1-of-2", "2-of-2"):
        journal = Journal(FileEngine(tmp_path / "journal", shard), JOB)
        for number in range(3):
            journal.add(key_of(f"{shard} {number}"), 7, Answer(id=f"{shard} {number}", text="one"))
        journal.close()
    damaged = tmp_path / "journal" / "1-of-2.journal"
    lines = damaged.read_bytes().splitlines(keepends=True)
    damaged.write_bytes(b"".join([*lines[:2], b"what is this\n", *lines[2:]]))
    with pytest.raises(SwinkError, match=re.escape(f"{damaged}: line 3 is no answer")):
        Journal(FileEngine(tmp_path / "journal"), JOB)

    with closing(SQLiteEngine(tmp_path / "runs.db")) as engine:
        engine.append(b'{"job": {}}')
        engine.append(b"what is this")
    with pytest.raises(SwinkError, match=re.escape(f"{tmp_path / 'runs.db'}: line 2 is no answer")):
        Journal(SQLiteEngine(tmp_path / "runs.db"), {})


@given(
    st.dictionaries(st.integers(1, 2**64 - 1), st.integers(1, 2**62 - 1), max_size=300),
    st.booleans(),
)
def test_the_index_is_a_dictionary(entries: dict[int, int], met_first: bool) -> None:
    index = Index()
    if met_first:
        assert all(index.meet(key) for key in entries)
    for key, value in entries.items():
        index.put(key, 1)
        index.put(key, value)
    assert len(index) == len(entries)
    assert {key: index.get(key) for key in entries} == entries
    assert [index.meet(key) for key in entries] == [not met_first] * len(entries)
    for is_first in (True, False):
        assert [index.meet(key, again=True) for key in entries] == [is_first] * len(entries)
    assert {key: index.get(key) for key in entries} == entries
    unknown = next(key for key in range(1, 400) if key not in entries)
    assert index.get(unknown) == 0


def test_an_id_takes_twenty_six_bytes_on_average() -> None:
    index = Index()
    sizes = []
    for number in range(40_000):
        index.meet(digest(b"%d" % number))
        if number % 1000 == 999:
            sizes.append(index.size / len(index))
    assert max(sizes[5:]) <= 34
    assert sum(sizes[5:]) / len(sizes[5:]) <= 27
