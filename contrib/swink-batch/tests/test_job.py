"""Jobs: requests, stored answers, output and retries."""

from __future__ import annotations

import asyncio
import csv
import gc
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import define
from row_server import Rows, frame, refusal, reply, stream_of

from swink_batch import Answer, Job, Tally, answers, run
from swink_batch.answers import as_json, succeeded
from swink_batch.report import lines
from swink_cli.summary import money
from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Cost,
    Done,
    Limits,
    MediaError,
    RetryPolicy,
    Start,
    StopReason,
    SwinkError,
    TextDelta,
    TextEnd,
    TextStart,
    Timeouts,
    Usage,
    UsageError,
    hookimpl,
)
from swink_testing.clock import ManualClock

EVENTS = "text/event-stream"

IMPATIENT = RetryPolicy(base=0.001, max_delay=0.01, retry_after_cap=0.05)


@asynccontextmanager
async def server(hostile: int | None = None) -> AsyncIterator[tuple[Rows, dict[str, Any]]]:
    """Start a server in this loop; yield it, and the settings of a job that asks it."""
    rows = Rows(hostile, None, 0.0)
    listening = await asyncio.start_server(rows.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    own = {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}
    try:
        yield rows, {"client": {"providers": own, "retry": IMPATIENT}}
    finally:
        listening.close()


def some(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{number}", "text": f"row r{number}"} for number in range(count)]


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
async def test_a_file_of_rows_is_answered_through_a_template(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"rows.{form}"
    if form == "jsonl":
        path.write_text("\n".join(map(json.dumps, some(5))))
    elif form == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "text"])
            writer.writeheader()
            writer.writerows(some(5))
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(some(5)), path)
    output = tmp_path / "answers.jsonl"
    tally = await run("echo/echo", path, output, prompt="Is {text} {{good}}?", order="input")
    found = [(line["id"], line["text"]) for line in written(output)]
    assert found == [(f"r{n}", f"Is row r{n} {{good}}?") for n in range(5)]
    assert (tally.total, tally.answered, tally.tokens["total"]) == (5, 5, 40)


async def test_a_line_of_csv_is_as_long_as_it_likes_and_has_as_many_fields_as_the_first(
    tmp_path: Path,
) -> None:
    path, output = tmp_path / "rows.csv", tmp_path / "answers.jsonl"
    long = "x" * 200_000
    path.write_text(f'id,text\na,one\nb,two,three\nc\nd,{long}\ne,"of two\nlines"\n')
    tally = await run("echo/echo", path, output, prompt="{text}", order="input")
    told = [line.get("text") or line["error"]["message"] for line in written(output)]
    assert told[0::3] == ["one", long]
    assert "line 3 has 3 fields, but the header 2: put values that contain commas in" in told[1]
    assert "line 4 has 1 fields, but the header 2" in told[2]
    assert told[4] == "of two\nlines"
    assert (tally.answered, tally.kinds) == (3, {"bad_row": 2})


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("rows.csv", b"id,text\na,caf\xc3\xa9\nb,caf\xe9\nc,\xed\xa0\x80\nd,one\n"),
        (
            "rows.jsonl",
            b'{"text": "caf\xc3\xa9"}\n\n{"text": "caf\xe9"}\n\xff\xfe{\x00\n{"text": "one"}\n',
        ),
    ],
)
async def test_a_line_that_is_not_utf_8_is_not_sent(
    name: str, lines: bytes, tmp_path: Path
) -> None:
    path, output = tmp_path / name, tmp_path / "answers.jsonl"
    path.write_bytes(lines)
    tally = await run("echo/echo", path, output, prompt="{text}", order="input")
    told = [line.get("text") or line["error"]["message"] for line in written(output)]
    assert told == [
        "café",
        "line 3 is not UTF-8: save the file as UTF-8",
        "line 4 is not UTF-8: save the file as UTF-8",
        "one",
    ]
    assert (tally.answered, tally.kinds) == (2, {"bad_row": 2})


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
async def test_a_csv_whose_names_are_not_utf_8_is_refused(encoding: str, tmp_path: Path) -> None:
    path, output = tmp_path / "rows.csv", tmp_path / "answers.jsonl"
    path.write_text("id,façade\na,one\n", encoding)
    with pytest.raises(MediaError, match=r"rows\.csv: its first line is not UTF-8"):
        await run("echo/echo", path, output, prompt="{id}")
    assert not output.exists()


async def test_a_csv_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    path, output = tmp_path / "rows.csv", tmp_path / "answers.jsonl"
    path.write_text("id,text,id\na,one,b\n")
    with pytest.raises(MediaError, match=r"rows\.csv: the header names 'id' twice"):
        await run("echo/echo", path, output, prompt="{text}")
    assert not output.exists()
    path.write_text("id,text,,\na,one,,\n")  # as of a sheet with columns to spare
    assert (await run("echo/echo", path, output, prompt="{text}")).answered == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_a_run_knows_how_many_rows_a_csv_file_has(end: str, tmp_path: Path) -> None:
    path, seen = tmp_path / "rows.csv", list[tuple[int | None, int]]()
    rows = ["id,text", 'a,"of\nthree\nlines"', "", 'b,a 5" pipe', 'c,"the ""last"""']
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        file.write(end.join(rows))

    def watch(tally: Tally) -> None:
        seen.append((tally.total, tally.done))

    await run("echo/echo", path, tmp_path / "o.jsonl", prompt="{text}", watch=watch)
    assert seen == [(3, 0), (3, 1), (3, 2), (3, 3)]


IDS = [1, "2", 3.5, 10**30, -4, "", True, None, ["a"]]
"""Valid ids of a row."""


@pytest.mark.parametrize("journal", ["journal", "journal.sqlite"])
@pytest.mark.parametrize("order", ["completion", "input"])
async def test_an_id_that_is_a_number_stays_one(
    order: Literal["completion", "input"], journal: str, tmp_path: Path
) -> None:
    path, output = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    path.write_text("\n".join(json.dumps({"id": id, "prompt": f"of {id!r}"}) for id in IDS))
    for again in (False, True):
        tally = await run("echo/echo", path, output, order=order, journal=tmp_path / journal)
        assert (tally.answered, tally.kept) == ((0, len(IDS)) if again else (len(IDS), 0))
        found = {line["text"]: line["id"] for line in written(output)}
        told = [found[f"of {id!r}"] for id in IDS]
        assert told == [1, "2", 3.5, 10**30, -4, "", "true", "8", '["a"]']
        assert type(told[0]) is int


async def test_a_number_and_its_digits_are_one_id_and_what_is_no_number_in_json_is_text() -> None:
    rows = [{"id": id, "prompt": "Hi"} for id in (1, "1", float("nan"), float("inf"))]
    found = [answer async for answer in answers("echo/echo", rows, concurrency=1)]
    assert [answer.id for answer in found] == [1, "row 2", "nan", "inf"]
    assert found[1].error is not None
    assert "the row has the same id as an earlier one, '1'" in found[1].error.message


async def test_a_value_that_is_more_than_text_goes_out_as_json() -> None:
    values = [
        {"a": [1, None], "é": "x"},
        ["one", True],
        (1, 2),
        True,
        3,
        0.5,
        "['a']",
        Decimal("1.50"),
    ]
    rows = [{"text": value} for value in values]
    found = [answer async for answer in answers("echo/echo", rows, prompt="{text}", concurrency=1)]
    said = ['{"a":[1,null],"é":"x"}', '["one",true]', "[1,2]", "true", "3", "0.5", "['a']", "1.50"]
    assert [answer.text for answer in found] == said


async def test_a_line_that_cannot_be_read_takes_no_other_rows_id(tmp_path: Path) -> None:
    path, output = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    lines = [json.dumps({"id": number, "text": f"row {number}"}) for number in range(5)]
    path.write_text("\n".join([*lines[:2], "not json", *lines[3:], '{"id": 6, "text": null}']))
    tally = await run("echo/echo", path, output, prompt="{text}", order="input")
    assert [line["id"] for line in written(output)] == [0, 1, "row 3", 3, 4, 6]
    assert (tally.answered, tally.kinds) == (4, {"bad_row": 2})
    assert "the row's 'text', used in the prompt, is null" in output.read_text()


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (None, "row 2 is neither a mapping nor a string"),
        (7, "row 2 is neither a mapping nor a string"),
        ([1], "row 2 is neither a mapping nor a string"),
        (({"id": 1},), "row 2 is neither a mapping nor a string"),
        (b"text", "row 2 is neither a mapping nor a string"),
        (
            {"id": 1, "text": "\ud800"},
            "the row cannot be converted to JSON: 'utf-8' codec can't encode",
        ),
        (
            {"id": "\ud800", "text": "one"},
            "the row cannot be converted to JSON: 'utf-8' codec can't encode",
        ),
        (
            {"id": 1, "text": "one", ("a",): 2},
            "the row cannot be converted to JSON: Only dicts with str keys",
        ),
    ],
    ids=ascii,
)
async def test_an_invalid_row_does_not_end_the_run(bad: Any, why: str, tmp_path: Path) -> None:
    output = tmp_path / "answers.jsonl"
    rows: list[Any] = [{"id": 0, "text": "zero"}, bad, {"id": 2, "text": "two"}]
    tally = await run("echo/echo", rows, output, prompt="{text}", order="input")
    lines = written(output)
    assert [(line["id"], line.get("text")) for line in lines] == [
        (0, "zero"),
        ("row 2", None),
        (2, "two"),
    ]
    assert why in lines[1]["error"]["message"]
    assert (tally.answered, tally.kinds) == (2, {"bad_row": 1})
    again = await run("echo/echo", rows, output, prompt="{text}")
    assert (again.done, again.kept, again.kept_failed) == (0, 2, 1)


async def test_a_byte_order_mark_is_not_part_of_the_first_line(tmp_path: Path) -> None:
    path, output = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    for begin in ("", "\n"):
        path.write_text(begin + "\n".join(map(json.dumps, some(2))), "utf-8-sig")
        tally = await run("echo/echo", path, output, prompt="{text}", order="input")
        assert tally.kinds == {}
        assert [line["text"] for line in written(output)] == ["row r0", "row r1"]


async def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path, arrow = tmp_path / "rows.parquet", pytest.importorskip("pyarrow")
    parquet.write_table(arrow.Table.from_pylist(some(5)), path)
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:4] + b"?" * 40 + whole[44:]):
        path.write_bytes(damaged)
        with pytest.raises(MediaError, match=r"rows\.parquet cannot be read as Parquet"):
            await run("echo/echo", path, tmp_path / "answers.jsonl", prompt="{text}")


async def test_the_prompt_of_a_row_is_a_prompt_of_any_form(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    rows = [
        {"id": "text", "prompt": "Hi"},
        {"id": "parts", "prompt": ["Look", picture]},
        {"id": "message", "prompt": {"role": "user", "content": "Hi"}},
        {"id": "number", "prompt": 5},
    ]
    output = tmp_path / "answers.jsonl"
    assert (await run("echo/echo", rows, output)).kinds == {"bad_row": 1}
    by_id = {line["id"]: line for line in written(output)}
    assert by_id["parts"]["text"].startswith("Look")
    assert by_id["message"]["text"] == by_id["text"]["text"] == "Hi"
    assert "prompt is of type int" in by_id["number"]["error"]["message"]


async def test_failures_are_stored_with_their_kind_and_retried_on_demand(tmp_path: Path) -> None:
    rows = [{"id": "good", "prompt": "Hi"}, {"id": "empty", "prompt": ""}, {"id": "none"}]
    output = tmp_path / "answers.jsonl"
    tally = await run("echo/echo", rows, output)
    assert tally.kinds == {"bad_row": 2}
    by_id = {line["id"]: line for line in written(output)}
    assert "the conversation is empty" in by_id["empty"]["error"]["message"]
    assert "neither prompt nor messages" in by_id["none"]["error"]["message"]
    again = await run("echo/echo", rows, output)
    assert (again.done, again.kept, again.kept_failed) == (0, 1, 2)
    retried = await run("echo/echo", rows, output, retry_failed=True)
    assert (retried.failed, retried.kept) == (2, 1)
    assert len(written(output)) == 3


@pytest.mark.parametrize("models", ["nobody/large", ["echo/echo", "nobody/large"], "large"])
async def test_an_unknown_model_ends_the_run_before_it_begins(
    models: str | list[str], tmp_path: Path
) -> None:
    output = tmp_path / "answers.jsonl"
    output.write_text("of an earlier run")
    with pytest.raises(UsageError, match=r"no provider|is not a model name"):
        await run(models, some(3), output, prompt="{text}")
    assert output.read_text() == "of an earlier run"
    assert (await run("echo/echo", some(3), output, prompt="{text}")).answered == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"prompt": "{txt}"}, "the row has no 'txt', used in the prompt"),
        ({"prompt": "{text"}, "the prompt is not a valid template"),
        ({"rows": "nowhere.jsonl"}, r"nowhere\.jsonl: no such file"),
        (
            {"models": "openai/rows", "limits": Limits(cost=1.0)},
            "the price of openai/rows is unknown",
        ),
        ({"limits": 5.0}, "limits is of type float"),
        ({"limits": Limits(turns=5)}, "limits.turns is set"),
        ({"models": ["echo/echo", "echo/think"], "via": "batch"}, "a batch uses one model"),
        ({"models": []}, "the list of models is empty"),
        ({"models": ()}, "the list of models is empty"),
        ({"models": None}, "not one of type NoneType"),
        ({"models": ["echo/echo", 5]}, "not one of type int"),
        ({"models": ("echo/echo", 5)}, "not one of type int"),
        ({"models": [["echo/echo"]]}, "not one of type list"),
        ({"models": [("echo/echo", "echo/think")]}, "not one of type tuple"),
        ({"models": {"echo/echo": {}}}, "not one of type dict"),
        ({"via": "foo"}, "via is 'foo'\n.*'calls' or 'batch'"),
        ({"via": ["batch"]}, r"via is \['batch'\]"),
        ({"order": "foo"}, "order is 'foo'\n.*'completion' or 'input'"),
        ({"turns": "redis://x"}, "turns must have the methods of Turns, unlike str"),
        ({"options": {"temprature": 1}}, "no option 'temprature'; did you mean 'temperature'"),
        (
            {"options": {"model": "echo/echo"}},
            "no option 'model'\nModels and a type are set on the job",
        ),
        ({"options": {"type": int}}, "no option 'type'"),
        ({"options": {"self": 1}}, "no option 'self'"),
        ({"options": {"temperature": "x"}}, "temperature='x': expected"),
        ({"options": {"settings": {"no": 1}}}, "echo has no setting 'no'"),
        ({"models": [("echo/echo", {"top": 1})]}, "no option 'top'"),
        ({"type": range}, "JSON schema"),
        ({"cancel": True}, "--cancel applies only to submitted batches"),
    ],
    ids=str,
)
async def test_a_run_that_cannot_begin_touches_nothing_and_can_be_corrected(
    wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    output = tmp_path / "answers.jsonl"
    output.write_text("of an earlier run")
    right: dict[str, Any] = {
        "models": "echo/echo",
        "rows": some(3),
        "output": output,
        "prompt": "{text}",
    }
    with pytest.raises(SwinkError, match=said):
        await run(**{**right, **wrong})
    assert output.read_text() == "of an earlier run"
    assert (await run(**right)).answered == 3


@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("journal", [None, "journal"])
@pytest.mark.parametrize(
    ("place", "why"),
    [("no folder/answers.jsonl", "the folder .*no folder does not exist"), (".", "it is a folder")],
)
async def test_an_impossible_output_is_reported_before_any_request(
    order: Literal["completion", "input"],
    journal: str | None,
    place: str,
    why: str,
    tmp_path: Path,
) -> None:
    output, kept = tmp_path / place, {} if journal is None else {"journal": tmp_path / journal}
    async with server() as (asked, settings):
        with pytest.raises(SwinkError, match=why) as raised:
            await run("openai/rows", ["row r1"], output, order=order, **kept, **settings)
    assert raised.value.title == "A file cannot be used"
    assert raised.value.resolution
    assert not asked.asked
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("order", ["completion", "input"])
async def test_a_disk_that_fills_in_the_last_line_ends_the_run(
    order: Literal["completion", "input"], tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource", reason="limits of files are Unix's")
    output = tmp_path / "answers.jsonl"
    await run("echo/echo", some(3), output, prompt="{text}")
    whole = output.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) - 3, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            await run("echo/echo", some(3), output, prompt="{text}", order=order)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again = await run("echo/echo", some(3), output, prompt="{text}", order="input")
    assert (again.kept, output.read_bytes()) == (3, whole)


async def test_all_rows_are_sent_again_on_demand(tmp_path: Path) -> None:
    output = tmp_path / "answers.jsonl"
    async with server() as (asked, settings):
        for resume in (True, False, True):
            tally = await run(
                "openai/rows", some(3), output, prompt="{text}", resume=resume, **settings
            )
    assert (tally.kept, tally.answered) == (3, 0)
    assert set(asked.asked.values()) == {2}


async def test_a_changed_id_field_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "answers.jsonl"
    rows = [{"text": "a", "name": "first"}, {"text": "b", "name": "second"}]
    async with server() as (asked, settings):
        named: dict[str, Any] = {"prompt": "{text}", **settings}
        await run("openai/rows", rows, output, id_field="name", **named)
        with pytest.raises(UsageError, match=r"id_field was 'name' .* but is 'id' now"):
            await run("openai/rows", rows, output, **named)
        assert len(written(output)) == 2
    assert set(asked.asked.values()) == {1}


async def test_other_tasks_run_while_earlier_answers_are_read(tmp_path: Path) -> None:
    seen: set[int] = set()
    tallies: list[Tally] = []

    async def look() -> None:
        while True:
            seen.update(tally.kept for tally in tallies)
            await asyncio.sleep(0)

    output = tmp_path / "answers.jsonl"
    await run("echo/echo", some(2000), output, prompt="{text}")
    looking = asyncio.ensure_future(look())
    again = await run("echo/echo", some(2000), output, prompt="{text}", watch=tallies.append)
    looking.cancel()
    assert again.kept == 2000
    assert any(0 < kept < 2000 for kept in seen)


async def test_a_run_that_is_stopped_writes_all_that_earlier_ones_answered(tmp_path: Path) -> None:
    def watch(tally: Tally) -> None:
        tally.stop("at once")

    path, output = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    late = "\n".join(map(json.dumps, some(6)[3:]))
    path.write_text(late)
    await run("echo/echo", path, output, prompt="{text}")
    path.write_text("\n".join(map(json.dumps, [*some(3), *some(9)[6:]])) + "\n" + late)
    stopped = await run("echo/echo", path, output, prompt="{text}", watch=watch)
    assert (stopped.kept, stopped.answered, len(written(output))) == (3, 0, 3)
    whole = await run("echo/echo", path, output, prompt="{text}")
    assert (whole.kept, whole.answered, len(written(output))) == (3, 6, 9)


@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("again", [{"retry_failed": True}, {"resume": False}], ids=str)
async def test_a_run_that_is_stopped_leaves_the_answers_that_it_was_to_replace(
    again: dict[str, Any], order: Literal["completion", "input"], tmp_path: Path
) -> None:
    def watch(tally: Tally) -> None:
        tally.stop("at once")

    path, output = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    rows = [*some(2), {"id": "none"}, *some(5)[2:]]
    path.write_text("\n".join(map(json.dumps, rows)))
    await run("echo/echo", path, output, prompt="{text}")
    before = {line["id"]: line for line in written(output)}
    path.write_text(path.read_text().replace("row r4", "another"))
    settings: dict[str, Any] = {"prompt": "{text}", "order": order, "watch": watch, **again}
    stopped = await run("echo/echo", path, output, **settings)
    del before["r4"]  # which says something else now
    assert {line["id"]: line for line in written(output)} == before
    assert (stopped.done, stopped.kept, stopped.kept_failed) == (0, 4, 1)


async def test_a_run_that_stops_at_its_budget_lets_others_have_their_turn(tmp_path: Path) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    path, output = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    model = "openai/gpt-5.4-mini"
    async with server() as (_, settings):
        path.write_text(json.dumps(some(2001)[-1]))
        await run(model, path, output, prompt="{text}", **settings)
        path.write_text("\n".join(map(json.dumps, some(2001))))
        beating = asyncio.ensure_future(beat())
        less = {**settings, "limits": Limits(cost=1e-9), "concurrency": 1}
        tally = await run(model, path, output, prompt="{text}", **less)
        beating.cancel()
    assert tally.stopped is not None
    assert "(limit: cost=1e-09)" in tally.stopped
    assert (tally.kept, len(written(output))) == (1, 1)
    assert beats > 200


async def test_a_run_that_is_stopped_leaves_those_that_wait_for_their_turn(tmp_path: Path) -> None:
    def watch(tally: Tally) -> None:
        if tally.done == 2:
            tally.stop("enough")

    output = tmp_path / "answers.jsonl"
    rows = [row["text"] for row in some(20)]
    async with server() as (asked, settings):
        tally = await asyncio.wait_for(
            run("openai/rows", rows, output, rpm=1500.0, watch=watch, **settings), 5.0
        )
        assert tally.stopped == "enough"
        assert 2 <= tally.answered == asked.asked.total() < 12
        assert (tally.failed, tally.under_way) == (0, 0)
        again = await run("openai/rows", rows, output, **settings)
    assert (again.kept, again.answered) == (tally.answered, 20 - tally.answered)
    assert set(asked.asked.values()) == {1}


@pytest.mark.parametrize("template", ["{", "{text!r}", "{text:>5}", "{text.x}", "{0}", "{}"])
async def test_an_invalid_template_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="the prompt is not a valid template"):
        _ = [answer async for answer in answers("echo/echo", some(1), prompt=template)]


@pytest.mark.parametrize(
    "field",
    ["{text!r}", "{text:>5}", "{text.x}", "{text[1]}", "{[1]}", '{"text": [1]}', "{text:{n}}"],
)
def test_an_invalid_field_name_is_reported_as_written(field: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{field} is not a field name")):
        Job(models="echo/echo", prompt=f"Say {{{{so}}}} {field}")


@pytest.mark.parametrize("order", ["completion", "input"])
async def test_a_row_with_a_repeated_id_has_a_separate_line(
    order: Literal["completion", "input"], tmp_path: Path
) -> None:
    ids = ["a", "row 4", "a", "a", "row 3"]
    rows = [{"id": id, "prompt": f"row {n}"} for n, id in enumerate(ids, 1)]
    output = tmp_path / "answers.jsonl"
    tally = await run("echo/echo", rows, output, order=order)
    assert (tally.answered, tally.kinds) == (2, {"bad_row": 3})
    lines = {line["id"]: line for line in written(output)}
    told = {id: line.get("text") or line["error"]["message"] for id, line in lines.items()}
    assert told == {
        "a": "row 1",
        "row 4": "row 2",
        "row 3": "the row has the same id as an earlier one, 'a': give each row a unique id",
        "row row 4": "the row has the same id as an earlier one, 'a': give each row a unique id",
        "row 5": "the row has the same id as an earlier one, 'row 3': give each row a unique id",
    }
    assert len(written(output)) == len(rows)
    again = await run("echo/echo", rows, output, order=order)
    assert (again.done, again.kept, again.kept_failed) == (0, 2, 3)
    assert {line["id"]: line for line in written(output)} == lines
    assert len(written(output)) == len(rows)


async def test_an_unreadable_line_has_a_reason_for_any_file_name(tmp_path: Path) -> None:
    path, output = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    path.write_text('{"id": "row 2", "prompt": "one"}\nnot json\n{"id": "row 2"}')
    await run("echo/echo", path, output, order="input")
    told = {line["id"]: line.get("text") or line["error"]["message"] for line in written(output)}
    assert [*told] == ["row 2", "row row 2", "row 3"]
    assert told["row 2"] == "one"
    assert "line 2 is not JSON" in told["row row 2"]
    assert "neither prompt nor messages" in told["row 3"]


async def test_a_hostile_server_leaves_no_row_without_an_answer_or_a_reason(
    tmp_path: Path,
) -> None:
    output = tmp_path / "answers.jsonl"
    rows = [{"id": row["id"], "prompt": row["text"]} for row in some(40)]
    async with server(hostile=5) as (asked, settings):
        options = {"timeouts": Timeouts(idle=0.1)}
        tally = await run("openai/rows", rows, output, options=options, **settings)
    lines = {line["id"]: line for line in written(output)}
    assert len(lines) == tally.done == 40
    for id, line in lines.items():
        assert line.get("text") == f"answer to {id}" or line["error"]["kind"], line
    assert tally.answered > 30
    assert asked.asked.total() > 40  # there was something to get over


async def test_the_partial_text_of_a_broken_answer_is_kept(tmp_path: Path) -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        whole = reply("200 OK", stream_of("half of it"), "text/event-stream")
        writer.write(whole.partition(b"\n\n")[0] + b"\n\n")
        writer.close()

    listening = await asyncio.start_server(broken, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    client = {"providers": {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}}
    output = tmp_path / "answers.jsonl"
    tally = await run("openai/rows", ["Hi"], output, client={**client, "retry": False})
    listening.close()
    [line] = written(output)
    assert (line["text"], line["error"]["kind"]) == ("half of it", "network")
    assert tally.kinds == {"network": 1}


@pytest.mark.parametrize(("limit", "counted"), [("rpm", "answered"), ("tpm", "tokens")])
async def test_a_limit_that_is_known_is_kept(tmp_path: Path, limit: str, counted: str) -> None:
    clock = ManualClock(jump=True)
    settings: dict[str, Any] = {limit: 60.0, "client": {"clock": clock}}
    tally = await run("echo/echo", [f"row {n}" for n in range(20)], tmp_path / "o", **settings)
    used = tally.answered if counted == "answered" else tally.tokens["total"]
    assert used >= 20
    assert 0.9 * (used - used / 20) <= clock.time() <= 1.5 * used  # one a second


async def test_the_answers_of_a_type_come_as_values() -> None:
    @define
    class Label:
        good: bool

    said = '{"good": true}'
    [answer] = [a async for a in answers("echo/echo", [said], type=Label)]
    assert answer.value == {"good": True}
    told = as_json(Answer(id="1", text="good"))
    assert told.error is not None
    assert told.error.kind == "bad_answer"


@asynccontextmanager
async def correcting() -> AsyncIterator[tuple[list[str], dict[str, Any]]]:
    """A server that answers `bad …` with an integer only when corrected, and the prompts it got.

    It holds back the answers to other prompts until it has sent a bad answer.
    """
    asked: list[str] = []
    sent = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(re.findall(rb"(?i)content-length: *(\d+)", head)[0])
        messages = json.loads(await reader.readexactly(size))["messages"]
        prompt = messages[0]["content"]
        asked.append(prompt)
        is_bad = prompt.startswith("bad")
        if not is_bad:
            await sent.wait()
        said = "no number" if is_bad and len(messages) == 1 else '{"value": 1}'
        writer.write(reply("200 OK", stream_of(said), EVENTS))
        writer.close()
        if is_bad:
            await reader.read()  # until the client has closed the connection
            for _ in range(100):  # and has decided about the correction
                await asyncio.sleep(0)
            sent.set()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    client = {"providers": {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}}
    yield asked, {"type": int, "client": client}
    listening.close()


@pytest.mark.parametrize("concurrency", [1, 2, 4])
async def test_a_correction_waits_until_the_budget_allows_it(
    concurrency: int, tmp_path: Path
) -> None:
    rows = ["bad 1", "good 1", "bad 2", "good 2"]
    given: dict[str, Any] = {"concurrency": concurrency, "options": {"max_tokens": 1000}}
    async with correcting() as (asked, settings):
        tally = await run(
            "openai/gpt-5.4-mini", rows, tmp_path / "o", limits=Limits(tokens=2_400),
            **given, **settings,
        )  # fmt: skip
    assert (tally.answered, tally.kinds, tally.stopped) == (4, {}, None)
    assert len(asked) == 6


async def test_a_correction_that_no_release_pays_for_fails(tmp_path: Path) -> None:
    async with correcting() as (asked, settings):
        tally = await run(
            "openai/gpt-5.4-mini", ["bad 1", "bad 2"], tmp_path / "o", limits=Limits(requests=2),
            **settings,
        )  # fmt: skip
    assert (tally.answered, tally.kinds, len(asked)) == (0, {"quota_exhausted": 2}, 2)


async def test_corrections_count_toward_the_requests_of_all_runs_of_a_journal(
    tmp_path: Path,
) -> None:
    output, rows = tmp_path / "answers.jsonl", ["bad 1", "bad 2", "bad 3"]
    async with correcting() as (asked, settings):
        for count in (1, 2, 3):
            tally = await run(
                "openai/rows", rows[:count], output, limits=Limits(requests=4), **settings
            )
    assert (tally.answered, tally.kept, len(asked)) == (0, 2, 4)
    assert [line["attempts"] for line in written(output)] == [2, 2]


async def test_a_row_whose_correction_fails_costs_what_its_first_answer_cost(
    tmp_path: Path,
) -> None:
    replies = [reply("200 OK", stream_of("no number"), EVENTS), refusal("400 Bad Request")]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(replies.pop(0))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    client = {"providers": {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}}
    output = tmp_path / "answers.jsonl"
    tally = await run("openai/gpt-5.4-mini", ["Hi"], output, type=int, client=client)
    listening.close()
    [line] = written(output)
    assert (line["error"]["kind"], line["usage"]["total"]) == ("invalid_request", 13)
    assert tally.cost == line["cost"] > 0


async def test_an_iterator_sends_requests_only_as_answers_are_consumed() -> None:
    taken = 0

    def rows() -> Any:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield f"row {number}"

    found = answers("echo/echo", rows(), concurrency=4)
    first = [await anext(found) for _ in range(5)]
    await found.aclose()
    assert len({answer.id for answer in first}) == 5
    assert taken < 50


async def test_shards_ask_each_row_once_and_one_run_writes_all(tmp_path: Path) -> None:
    rows = [{"id": row["id"], "prompt": row["text"]} for row in some(40)]
    for journal in ("journal", "journal.sqlite"):
        async with server() as (asked, settings):
            tallies = await asyncio.gather(
                *(
                    run(
                        "openai/rows",
                        rows,
                        tmp_path / f"{number}.jsonl",
                        journal=tmp_path / journal,
                        shard=(number, 3),
                        **settings,
                    )
                    for number in (1, 2, 3)
                )
            )
            assert sum(tally.answered for tally in tallies) == 40
            whole = await run(
                "openai/rows", rows, tmp_path / "all.jsonl", journal=tmp_path / journal,
                order="input", **settings,
            )  # fmt: skip
        assert whole.kept == 40
        assert [line["id"] for line in written(tmp_path / "all.jsonl")] == [r["id"] for r in rows]
        assert set(asked.asked.values()) == {1}


async def test_one_journal_has_one_writer(tmp_path: Path) -> None:
    job = Job(models="echo/echo", journal=tmp_path / "journal")
    first = job.open_journal()
    assert first is not None
    with pytest.raises(UsageError, match="another process is writing"):
        job.open_journal()
    first.close()


async def test_a_budget_ends_a_run_before_it_is_spent(tmp_path: Path) -> None:
    rows = [{"id": row["id"], "prompt": row["text"]} for row in some(300)]
    output = tmp_path / "answers.jsonl"
    async with server() as (asked, settings):
        job = Job(
            models="openai/gpt-5.4-mini",
            limits=Limits(cost=0.001),
            concurrency=4,
            **settings,
            options={"max_tokens": 10},
        )
        tally = await job.run(rows, output)
        assert 0 < tally.answered < 300
        assert tally.stopped is not None
        assert "(limit: cost=0.001)" in tally.stopped
        assert 0.00087 < tally.cost <= 0.001  # a call may cost 0.00013
        count = asked.asked.total()
        again = await job.run(rows, output)
    assert (again.answered, asked.asked.total()) == (0, count)


async def test_a_budget_that_pays_for_no_call_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    async with server() as (asked, settings):
        given: dict[str, Any] = {"limits": Limits(cost=0.0015), **settings}
        model, output = "openai/gpt-5.4-mini", tmp_path / "answers.jsonl"
        tally = await run(model, ["row a"], output, **given)
        assert tally.stopped is not None
        assert re.match(
            r"\$0 is spent, \$0 reserved, and this call may cost \$0\.0\d+ \(limit: cost=0\.0015\)",
            tally.stopped,
        )
        assert "lower max_tokens" in tally.stopped
        assert (tally.done, asked.asked.total()) == (0, 0)
        bounded = await run(model, ["row a"], tmp_path / "o", options={"max_tokens": 10}, **given)
    assert (bounded.answered, bounded.stopped) == (1, None)


async def test_a_budget_needs_a_price() -> None:
    with pytest.raises(UsageError, match="the price of openai/rows is unknown"):
        _ = [a async for a in answers("openai/rows", ["Hi"], limits=Limits(cost=1.0))]


# (limits, rows answered in a first run and in a second)
SPENT = [
    (Limits(requests=3), 3),
    (Limits(tokens=400), 30),
    (Limits(cost=0.0), 0),
]


@pytest.mark.parametrize(("limits", "most"), SPENT)
async def test_limits_count_all_runs_of_a_journal(
    limits: Limits, most: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output, rows = tmp_path / "answers.jsonl", tmp_path / "rows.jsonl"
    rows.write_text("\n".join(map(json.dumps, some(100))))
    async with server() as (asked, settings):
        settings["prompt"] = "{text}"
        given: dict[str, Any] = {**settings, "limits": limits, "options": {"max_tokens": 10}}
        first = await run("openai/gpt-5.4-mini", rows, output, **given)
        assert first.stopped is not None
        assert "(limit: " in first.stopped
        assert (first.answered, first.failed) == (asked.asked.total(), 0)
        assert first.answered <= most
        again = await run("openai/gpt-5.4-mini", rows, output, **given)
        assert (again.answered, again.failed, again.kept) == (0, 0, first.answered)
        assert first.answered == asked.asked.total()
        assert first.answered >= most // 2
        whole = await run("openai/gpt-5.4-mini", rows, output, **{**given, "limits": Limits()})
    assert (whole.kept, whole.stopped) == (first.answered, None)
    assert whole.answered == 100 - first.answered
    core = [each for each in caplog.records if each.name.startswith("swink_core")]
    refused = [each for each in core if each.levelname == "ERROR"]
    assert len(refused) == 2  # the row that ended each run, and none of those that waited


class Cached:
    """A plugin that answers each request for the text "known" as a cache does."""

    @hookimpl(tryfirst=True)
    def stream(self, context: Context) -> AsyncIterator[AssistantMessageEvent] | None:
        return self._events() if context.messages[-1].content == "known" else None

    async def _events(self) -> AsyncIterator[AssistantMessageEvent]:
        yield Start()
        yield TextStart(0)
        yield TextDelta(0, "good")
        yield TextEnd(0)
        usage = Usage(0, 0, total=0, reported=True)
        yield Done(StopReason.STOP, usage, Cost(input=0.0, output=0.0, total=0.0))


async def test_rows_answered_from_a_cache_count_as_no_request_in_any_run_of_a_journal(
    tmp_path: Path,
) -> None:
    output, rows = tmp_path / "answers.jsonl", tmp_path / "rows.jsonl"
    known = [{"id": f"k{number}", "text": "known"} for number in range(20)]
    async with server() as (asked, settings):
        settings["client"]["plugins"] = [Cached()]
        given: dict[str, Any] = {**settings, "prompt": "{text}", "limits": Limits(requests=3)}
        rows.write_text("\n".join(map(json.dumps, known + some(1))))
        first = await run("openai/rows", rows, output, **given)
        assert (first.answered, first.stopped) == (21, None)
        rows.write_text("\n".join(map(json.dumps, known + some(4))))
        again = await run("openai/rows", rows, output, **given)
    assert (again.kept, again.answered) == (21, 2)
    assert "3 requests were made (limit: requests=3)" in (again.stopped or "")
    assert asked.asked.total() == 3
    attempts = {line["id"]: line.get("attempts") for line in written(output)}
    assert (attempts["k0"], attempts["r0"]) == (0, None)


async def test_an_answer_without_usage_is_kept_with_an_estimated_cost(tmp_path: Path) -> None:
    body = frame({"role": "assistant", "content": "good"}) + frame({}, "stop") + b"data: [DONE]\n\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply("200 OK", body, EVENTS))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    client = {"providers": {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}}
    output = tmp_path / "answers.jsonl"
    limits = Limits(cost=1.0)
    tally = await run("openai/gpt-5.4-mini", ["Hi"], output, client=client, limits=limits)
    listening.close()
    [line] = written(output)
    assert line["estimated"] is True
    assert tally.estimated == tally.cost == line["cost"] > 0
    assert any(f"cost: {money(tally.cost)} (" in each for each in lines(tally))


def test_costs_are_written_without_the_noise_of_their_sum() -> None:
    message = AssistantMessage([], total_cost=Cost(total=0.1 + 0.2))
    assert succeeded("a", message, "openai/rows").cost == 0.3


@pytest.mark.parametrize("wrap", [lambda pair: pair, lambda pair: [pair], lambda pair: (pair,)])
async def test_the_journal_contains_no_key_from_options_of_a_model(
    wrap: Any, tmp_path: Path
) -> None:
    output = tmp_path / "answers.jsonl"
    pair = ("openai/rows", {"base_url": "http://127.0.0.1:9", "api_key": "secret", "seed": 1})
    client = {"retry": False}
    tally = await run(wrap(pair), ["Hi"], output, client=client)
    assert (tally.failed, tally.kinds.keys()) == (1, {"network"})
    [line] = written(output)
    assert line["model"] == "openai/rows"
    journal = (tmp_path / "answers.jsonl.journal" / "all.journal").read_text()
    assert "('openai/rows', {'seed': 1})" in journal.splitlines()[0]
    assert "secret" not in journal + output.read_text()
    others = ("openai/rows", {**pair[1], "api_key": "other"})
    assert (await run(others, ["Hi"], output, client=client)).failed == 1  # the job is the same


@pytest.mark.parametrize("via", ["calls", "batch"])
async def test_a_run_without_a_key_is_refused_and_keeps_earlier_answers(
    via: Literal["calls", "batch"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    path, output = tmp_path / "rows.jsonl", tmp_path / "answers.jsonl"
    settings: dict[str, Any] = {"prompt": "{text}", "journal": tmp_path / "journal"}
    rows = [json.dumps(row) for row in some(20)]
    path.write_text("\n".join(rows[10:]))
    async with server() as (asked, given):
        assert (await run("openai/rows", path, output, **settings, **given)).answered == 10
        path.write_text("\n".join(rows))
        del given["client"]["providers"]["openai"]["api_key"]
        with pytest.raises(UsageError, match="OPENAI_API_KEY is not set") as raised:
            await run("openai/rows", path, output, via=via, **settings, **given)
        assert (raised.value.title, asked.asked.total()) == ("No credentials for OpenAI", 10)
        assert via == "batch" or len(written(output)) == 10
        given["client"]["providers"]["openai"]["api_key"] = "x"
        again = await run("openai/rows", path, output, **settings, **given)
    assert (again.kept, again.answered, set(asked.asked.values())) == (10, 10, {1})


ENDS = {
    "auth": ("401 Unauthorized", {"message": "Incorrect API key", "code": "invalid_api_key"}),
    "quota_exhausted": ("429 Slow", {"message": "no credit", "code": "insufficient_quota"}),
    "model_not_found": ("404 Gone", {"message": "no such model", "code": "model_not_found"}),
}
"""Failures that a server returns for every row from some moment on."""


@pytest.mark.parametrize("answered", [0, 5])
@pytest.mark.parametrize("kind", ENDS)
async def test_a_failure_of_every_row_ends_the_run_and_is_retried(
    kind: str, answered: int, tmp_path: Path
) -> None:
    left, asked = answered, 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left, asked
        await reader.readuntil(b"\r\n\r\n")
        left, asked = left - 1, asked + 1
        status, error = ENDS[kind]
        body = json.dumps({"error": error}).encode()
        refused = reply(status, body, "application/json")
        writer.write(refused if left < 0 else reply("200 OK", stream_of("good"), EVENTS))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    client = {"providers": {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}}
    settings: dict[str, Any] = {"prompt": "{text}", "client": client, "concurrency": 4}
    output = tmp_path / "answers.jsonl"
    tally = await run("openai/rows", some(500), output, **settings)
    assert (tally.answered, tally.kinds) == (answered, {kind: tally.failed})
    assert 10 <= tally.failed < 20
    assert asked == tally.done
    assert tally.stopped is not None
    why, remedy = tally.stopped.split("\n")
    first = next(line for line in written(output) if "error" in line)["error"]
    assert why == f"10 consecutive rows failed with: {first['message']}"
    assert remedy == f"{first['resolution']} A run that is started again asks them again."
    left = 500
    again = await run("openai/rows", some(500), output, **settings)
    listening.close()
    assert (again.kept, again.answered, again.stopped) == (answered, 500 - answered, None)


async def test_a_server_that_throttles_for_ever_ends_the_run(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply("429 Slow", b"{}", "application/json"))
        writer.close()

    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    client = {"providers": {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}}
    rows = [row["text"] for row in some(500)]
    tally = await run("openai/rows", rows, tmp_path / "o", client={**client, "retry": False})
    listening.close()
    assert tally.stopped is not None
    assert "10 consecutive rows failed with: Rate limited" in tally.stopped
    assert tally.kinds == {"throttled": tally.failed}
    assert tally.failed < 20


async def test_a_fallback_answers_if_the_first_model_cannot(tmp_path: Path) -> None:
    client = {"retry": IMPATIENT, "providers": {"openai": {"base_url": "http://127.0.0.1:9"}}}
    models = ["openai/rows", "echo/echo"]
    tally = await run(
        models, ["Hi", "Ho"], tmp_path / "out.jsonl", client=client, options={"api_key": "x"}
    )
    assert tally.models == {"echo/echo": 2}


def test_a_watch_sees_the_run_grow(tmp_path: Path) -> None:
    seen: list[int] = []

    def watch(tally: Tally) -> None:
        seen.append(tally.done)

    asyncio.run(run("echo/echo", ["a", "b", "c"], tmp_path / "o.jsonl", watch=watch))
    assert seen == [0, 1, 2, 3]


async def test_a_row_that_is_done_leaves_no_object_in_memory(tmp_path: Path) -> None:
    counts: list[int] = []

    def watch(tally: Tally) -> None:
        if tally.done in (50, 250):
            gc.collect()
            counts.append(len(gc.get_objects()))

    rows = (f"row {number}" for number in range(251))
    await run("echo/echo", rows, tmp_path / "o.jsonl", concurrency=4, watch=watch)
    assert counts[1] - counts[0] < 100


async def test_more_than_text_is_kept_whole(tmp_path: Path) -> None:
    rows = [{"prompt": "Add", "tools": [{"name": "add", "description": "", "parameters": {}}]}]
    [answer] = [a async for a in answers("echo/tool", rows)]
    assert isinstance(answer, Answer)
    assert answer.message is not None
