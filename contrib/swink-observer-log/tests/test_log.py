"""The log entries of a call, their levels, and what is never logged."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import swink_core as swink
from swink_observer_log import JSONFormatter, LogfmtFormatter, LogObserver, from_environment
from swink_testing.acme import acme_answer, acme_host
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.observers import ObserverConformance

AT_ONCE = swink.RetryPolicy(base=0.0, fall_back_on=frozenset({swink.StreamErrorKind.AUTH}))
DONE = ("INFO", "call done")
SSE = {"Content-Type": "text/event-stream"}
ANSWER = ({"text": "Hel"}, {"text": "lo"}, {"stop": "stop"})


class Lines(logging.Handler):
    """Keeps the fields of each record, with its level."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append((record.levelname, record.__dict__["swink"]))

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(level, fields["event"]) for level, fields in self.kept]


def logger_of(*handlers: logging.Handler, level: int = logging.INFO) -> logging.Logger:
    """A logger that no other test uses."""
    logger = logging.Logger("calls", level)
    for handler in handlers:
        logger.addHandler(handler)
    return logger


async def logged(
    *answers: MemoryResponse, models: Any = "acme/large", level: int = logging.INFO, **given: Any
) -> Lines:
    """The log entries of a call."""
    lines = Lines()
    observer = LogObserver(logger_of(lines, level=level), **given)
    own = {"acme": {"api_key": "canary-key-1234", "base_url": "http://acme.invalid"}}
    http = MemoryHTTPClient(*answers)
    async with (
        swink.Client(host=acme_host([observer]), http=http, providers=own, retry=AT_ONCE) as client,
        client.stream(models, "Hi", session_id="visit-7") as stream,
    ):
        async for _ in stream:
            pass
    return lines


async def test_a_call_is_two_lines_that_share_its_id() -> None:
    lines = await logged(acme_answer(*ANSWER))
    assert lines.events == [("INFO", "call begins"), ("INFO", "call done")]
    (_, begins), (_, done) = lines.kept
    assert begins["call"] == done["call"]
    assert begins["session"] == "visit-7"
    told = {"model": "acme/large", "stop": "stop", "attempts": 1, "input_tokens": 1}
    assert told.items() <= done.items()
    assert 0 <= done["first_event_s"] <= done["seconds"]


def refusal(text: str = "no such key") -> MemoryResponse:
    return MemoryResponse.of_json({"error": text}, 401)


# (name, answers, models, the records)
LEVELS: list[tuple[str, Any, Any, list[tuple[str, str]]]] = [
    (
        "made_again",
        lambda: [acme_answer({"error": "busy"}), acme_answer(*ANSWER)],
        "acme/large",
        [("INFO", "call begins"), ("WARNING", "retry"), ("INFO", "call done")],
    ),
    (
        "handed_on",
        lambda: [refusal(), acme_answer(*ANSWER)],
        ["acme/large", "acme/small"],
        [("INFO", "call begins"), ("WARNING", "fallback"), ("INFO", "call done")],
    ),
    (
        "refused",
        lambda: [refusal()],
        "acme/large",
        [("INFO", "call begins"), ("ERROR", "call failed")],
    ),
    (
        "damaged",
        lambda: [MemoryResponse([b'data: {"text": \n\n'], headers=SSE), acme_answer(*ANSWER)],
        "acme/large",
        [("INFO", "call begins"), ("WARNING", "notice"), ("WARNING", "retry"), DONE],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "models", "events"), [row[1:] for row in LEVELS], ids=[row[0] for row in LEVELS]
)
async def test_each_level_says_how_bad_it_is(answers: Any, models: Any, events: Any) -> None:
    assert (await logged(*answers(), models=models)).events == events


async def test_a_closed_stream_is_no_failure() -> None:
    lines = Lines()
    client = swink.Client(plugins=[LogObserver(logger_of(lines))])
    async with client, client.stream("echo/stall", "one two") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                break
    assert lines.events[-1] == ("INFO", "call closed")


async def test_debug_shows_events_and_not_what_they_say() -> None:
    lines = await logged(acme_answer(*ANSWER), level=logging.DEBUG)
    debug = [fields for level, fields in lines.kept if level == "DEBUG"]
    assert [fields["event"] for fields in debug] == [
        "start", "notice", "text_start", "text_delta", "text_delta", "text_end",
    ]  # fmt: skip
    assert [fields.get("characters") for fields in debug] == [None, None, None, 3, 2, None]
    assert "Hel" not in repr(lines.kept)


async def test_an_error_is_shortened_and_what_is_to_be_hidden_is_hidden() -> None:
    said = "canary-key-1234 is not ada@example.org's " + "x" * 5_000
    lines = await logged(
        refusal(said), level=logging.ERROR, hide=lambda text: text.replace("ada@example.org", "?")
    )
    [(_, failed)] = lines.kept
    assert "canary-key-1234" not in failed["error"]
    assert "ada@" not in failed["error"]
    assert len(failed["error"]) < 1_100


# -- formats -------------------------------------------------------------------------------------


def _line(formatter: logging.Formatter, fields: dict[str, Any] | None, text: str = "other") -> str:
    record = logging.LogRecord("calls", logging.INFO, "", 0, text, None, None)
    if fields is not None:
        record.__dict__["swink"] = fields
    return formatter.format(record)


HOSTILE = 'a"b\nlevel=ERROR c\u2028\x85\x1b[2J\x9b2J'


def test_a_json_line_is_one_line_that_says_what_was_said() -> None:
    line = _line(JSONFormatter(), {"event": "x", "model": HOSTILE})
    assert line.splitlines() == [line]
    assert not {"\x1b", "\x9b"} & {*line}
    assert json.loads(line)["model"] == HOSTILE


def test_a_value_cannot_break_a_logfmt_line_or_add_a_field() -> None:
    line = _line(LogfmtFormatter(), {"event": "x", "model": HOSTILE, "cached": True})
    assert line.splitlines() == [line]
    assert not {"\x1b", "\x9b"} & {*line}
    assert line.endswith(" cached=true")
    assert line.split(" model=")[0].endswith('event=x')  # fmt: skip
    assert 'model="a\\"b\\nlevel=ERROR' in line


@pytest.mark.parametrize("formatter", [JSONFormatter(), LogfmtFormatter()])
def test_other_libraries_records_go_through_too(formatter: logging.Formatter) -> None:
    assert "disk is full" in _line(formatter, None, "disk is full")


# -- the environment -----------------------------------------------------------------------------


@pytest.fixture
def fresh_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("swink_observer_log")
    kept, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield logger
    logger.handlers[:] = kept
    logger.setLevel(level)
    logger.propagate = propagate


def test_without_the_setting_there_is_no_observer(fresh_logger: logging.Logger) -> None:
    before = fresh_logger.handlers[:]
    assert from_environment({}) is None
    assert fresh_logger.handlers == before


def test_the_setting_adds_one_handler_however_often_it_is_read(
    fresh_logger: logging.Logger,
) -> None:
    before = len(fresh_logger.handlers)
    for _ in range(3):
        assert from_environment({"SWINK_LOG": "json"}) is not None
    assert len(fresh_logger.handlers) == before + 1


def test_a_program_that_has_its_own_handler_keeps_it_alone(fresh_logger: logging.Logger) -> None:
    fresh_logger.addHandler(logging.StreamHandler(io.StringIO()))
    before = fresh_logger.handlers[:]
    assert from_environment({"SWINK_LOG": "json"}) is not None
    assert fresh_logger.handlers == before


@pytest.mark.parametrize(
    "environ", [{"SWINK_LOG": "xml"}, {"SWINK_LOG": "json", "SWINK_LOG_LEVEL": "LOUD"}]
)
def test_a_setting_that_means_nothing_is_refused(
    environ: dict[str, str], fresh_logger: logging.Logger
) -> None:
    with pytest.raises(swink.UsageError, match="SWINK_LOG"):
        from_environment(environ)


def test_installed_it_is_on_where_it_is_configured_and_silent_otherwise(swink: Any) -> None:
    done = swink("ask", "-m", "echo/echo", "Hi", SWINK_LOG="json")
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines] == ["call begins", "call done"]
    assert done.stdout == "Hi\n"
    assert "call begins" not in swink("ask", "-m", "echo/echo", "Hi").stderr


# -- what every observer promises ----------------------------------------------------------------

TEXT = io.StringIO()


def _observer() -> LogObserver:
    TEXT.seek(0)
    TEXT.truncate()
    handler = logging.StreamHandler(TEXT)
    handler.setFormatter(JSONFormatter())
    return LogObserver(logger_of(handler, level=logging.DEBUG))


class TestLogObserver(ObserverConformance):
    observer = _observer
    installed = from_environment

    @staticmethod
    def written(observer: Any) -> str:
        return TEXT.getvalue()
