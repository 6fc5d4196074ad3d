"""`swink record` and `swink replay`: a recording contains the received bytes, and replays without a
network.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_test_helpers.installed import LINES_PROVIDER, catalogue, install, record

ANSWER = [{"think": "Hm."}, {"say": "Hello "}, {"say": "Ada."}]
STOP = {"stop": "stop", "heard": 5, "said": 3}
KEY = "key-0123456789"


@pytest.fixture
def lines(swink: Any, tmp_path: Path) -> Any:
    """Runs `swink` where the provider `lines` is installed, with a key for it."""
    site = install(
        tmp_path / "site",
        "swink-provider-lines",
        {"swink.providers": {"lines": "lines_provider:LinesProvider"}},
        {
            "lines_provider/__init__.py": LINES_PROVIDER,
            "lines_provider/models.toml": catalogue("lines"),
        },
    )

    def run(*arguments: str) -> Any:
        return swink(*arguments, PYTHONPATH=str(site), LINES_API_KEY=KEY)

    return run


def service(folder: Path, *said: dict[str, Any], **head: Any) -> Recording:
    """The lines that the service sends, a tenth of a second apart."""
    record(folder / "service", "lines", said, len(said) / 10, **head)
    return Recording.load(folder / "service")


@pytest.fixture
def recorded(lines: Any, tmp_path: Path) -> Any:
    """Record what a service sends; `request` is the request it received."""

    def run(*said: dict[str, Any], more: tuple[str, ...] = (), **head: Any) -> Any:
        with ReplayServer() as server:
            url = server.add("case", service(tmp_path, *said, **head))
            asked = ("-m", "lines/large", "--base-url", url, "--output", str(tmp_path / "kept"))
            return lines("record", *asked, *more, "Who is there?")

    return run


def test_the_answer_is_shown_and_kept_as_it_came(recorded: Any, tmp_path: Path) -> None:
    done = recorded(*ANSWER, STOP, more=("--note", "A greeting"))

    kept, sent = Recording.load(tmp_path / "kept"), Recording.load(tmp_path / "service")
    assert (done.returncode, done.stdout) == (0, "Hello Ada.\n")
    assert (kept.body, kept.status, kept.note) == (sent.body, 200, "A greeting")
    assert kept.message is not None
    assert kept.message.text == "Hello Ada."
    assert kept.message.usage is not None
    assert kept.message.total_usage is None  # which is of the call, not of the answer
    assert f"recorded {len(sent.body)} bytes in " in done.stderr


def test_a_key_is_in_no_file_of_a_recording(recorded: Any, tmp_path: Path) -> None:
    recorded(*ANSWER, STOP)

    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"recording.json", "message.json"}
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_failed_answer_is_recorded_and_fails_the_command(recorded: Any, tmp_path: Path) -> None:
    done = recorded(*ANSWER)  # cut before its end

    kept = Recording.load(tmp_path / "kept")
    assert done.returncode == 1
    assert kept.message is not None
    assert (kept.message.error_kind, kept.message.text) == ("network", "Hello Ada.")


def test_an_existing_recording_is_replaced_only_with_force(recorded: Any, tmp_path: Path) -> None:
    recorded(*ANSWER, STOP)
    before = (tmp_path / "kept" / "recording.json").read_bytes()
    (tmp_path / "service").rename(tmp_path / "before")
    refused = recorded({"say": "Again."}, STOP)

    assert refused.returncode == 2
    assert "already contains a recording" in refused.stderr
    assert (tmp_path / "kept" / "recording.json").read_bytes() == before

    (tmp_path / "service").rename(tmp_path / "refused")
    assert recorded({"say": "Again."}, STOP, more=("--force",)).stdout == "Again.\n"


@pytest.mark.parametrize("place", ["kept", "kept/deep/er"])
def test_no_key_is_requested_if_it_could_not_be_stored(
    recorded: Any, tmp_path: Path, place: str
) -> None:
    (tmp_path / "kept").write_text("mine")
    done = recorded(*ANSWER, STOP, more=("--force", "--output", str(tmp_path / place)))

    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'kept'} is a file" in done.stderr
    assert (tmp_path / "kept").read_text() == "mine"


def test_an_answer_that_came_over_no_network_cannot_be_recorded(swink: Any, tmp_path: Path) -> None:
    done = swink("record", "-m", "echo/echo", "--output", str(tmp_path / "kept"), "Hi")

    assert done.returncode == 2
    assert "there is nothing to record" in done.stderr
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("options", [(), ("--fast",)], ids=["in its time", "fast"])
def test_a_recording_plays_through_its_providers_own_adapter(
    lines: Any, tmp_path: Path, options: tuple[str, ...]
) -> None:
    service(tmp_path, *ANSWER, STOP)

    done = lines("replay", *options, str(tmp_path / "service"))

    assert (done.returncode, done.stdout) == (0, "Hello Ada.\n")
    assert "Hm." in done.stderr
    assert "5 tokens in, 3 out" in done.stderr


def test_a_recorded_failure_fails_again(lines: Any, tmp_path: Path) -> None:
    service(tmp_path, *ANSWER)

    done = lines("replay", "--fast", str(tmp_path / "service"))

    assert (done.returncode, done.stdout) == (1, "Hello Ada.\n")


TALKATIVE = """
import asyncio
import sys

class TalkingProvider(LinesProvider):
    speaks_http = False
    said = '{"say": "Hello Ada."}', '{"stop": "stop", "heard": 5, "said": 3}'

    def convert(self, model, context, options):
        return {}

    async def exchange(self, x):
        program = "import sys\\nfor line in sys.argv[1:]: print(line)"
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, *self.said, stdout=asyncio.subprocess.PIPE
        )
        while data := await child.stdout.read(16):
            yield data
        await child.wait()
"""


def test_output_of_a_child_process_replays_without_it(swink: Any, tmp_path: Path) -> None:
    source = LINES_PROVIDER + TALKATIVE
    for folder, program in (("site", source), ("gone", source.replace("sys.executable", "'gone'"))):
        install(
            tmp_path / folder,
            "swink-provider-lines",
            {"swink.providers": {"lines": "lines_provider:TalkingProvider"}},
            {
                "lines_provider/__init__.py": program,
                "lines_provider/models.toml": catalogue("lines"),
            },
        )
    kept = str(tmp_path / "kept")

    asked = ("record", "-m", "lines/large", "--output", kept, "Who is there?")
    done = swink(*asked, PYTHONPATH=str(tmp_path / "site"))
    again = swink("replay", "--fast", kept, PYTHONPATH=str(tmp_path / "gone"))

    assert (done.returncode, done.stdout) == (0, "Hello Ada.\n"), done.stderr
    assert len(Recording.load(kept).chunks) > 2
    assert (again.returncode, again.stdout) == (0, "Hello Ada.\n"), again.stderr


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "recording.json"),
        ({"recording.json": "{"}, "recording.json"),
        ({"recording.json": json.dumps({"version": 2, "provider": "nobody"})}, "recording.json"),
    ],
    ids=["no folder", "no JSON", "not all there"],
)
def test_an_invalid_recording_is_named(
    lines: Any, tmp_path: Path, files: dict[str, str], words: str
) -> None:
    for name, text in files.items():
        (tmp_path / "kept").mkdir(exist_ok=True)
        (tmp_path / "kept" / name).write_text(text)

    done = lines("replay", str(tmp_path / "kept"))

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_without_its_provider_a_recording_says_whose_it_is(swink: Any, tmp_path: Path) -> None:
    service(tmp_path, *ANSWER, STOP)

    done = swink("replay", str(tmp_path / "service"))

    assert done.returncode == 2
    assert 'no provider "lines"' in done.stderr


def test_output_of_curl_becomes_a_recording_with_its_message(lines: Any, tmp_path: Path) -> None:
    body = b'{"say": "Hello Ada."}\n{"stop": "stop", "heard": 5, "said": 3}\n'
    head = b"HTTP/2 200 \r\ncontent-type: application/x-ndjson\r\nset-cookie: a=1\r\n\r\n"
    (tmp_path / "answer.txt").write_bytes(head + body)

    asked = ("--from-sse", str(tmp_path / "answer.txt"), "--output", str(tmp_path / "kept"))
    done = lines("record", "-m", "lines/large", *asked)

    kept = Recording.load(tmp_path / "kept")
    assert (done.returncode, done.stdout) == (0, "Hello Ada.\n"), done.stderr
    assert (kept.body, kept.chunks, kept.body_file) == (body, [(0.0, len(body))], "body.ndjson")
    assert kept.message is not None
    assert kept.message.text == "Hello Ada."
    assert {*kept.headers} == {"Content-Type"}
    assert not kept.request.path.startswith("/saved")
