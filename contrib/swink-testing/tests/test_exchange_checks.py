"""Providers of several requests: the kit plays all of them, and finds a fault in any."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from conformance_subjects import FIXTURES

from swink_core import Host, replace
from swink_core.providers import FrameTooLong, SSEDecoder
from swink_recorder.legs import RecordedLeg
from swink_recorder.recording import Recording
from swink_testing.commands import check as command
from swink_testing.conformance import (
    PROVIDER_CHECKS,
    Outcome,
    Subject,
    evidence_of,
    run_check,
    run_checks,
)
from swink_testing.conformance.evidence import is_of_a_server
from swink_testing.conformance.loopback_only import loopback_only
from swink_testing.driver import fold
from swink_testing.mutants import Mutant, edited, killed_by

PACKAGE = "jobs_provider"

FAULTS = [
    # what is wrong, the code that is changed, what stands there instead, the check that finds it
    (
        "one user's token for every key",
        "return Key(self.api_key(options) or '', url)",
        "SHARED.append(Key(self.api_key(options) or '', url))\n        return SHARED[0]",
        "credentials",
    ),
    (
        "a token of milliseconds",
        "given.expires_in)",
        "given.expires_in / 1000)",
        "credentials",
    ),
    (
        "a token for ever",
        "given.expires_in)",
        "given.expires_in * 1000)",
        "credentials",
    ),
    (
        "a margin larger than a token's life",
        "given.expires_in)",
        "given.expires_in - 300)",
        "credentials",
    ),
    (
        "the environment's key before the call's",
        "return Key(self.api_key(options) or '', url)",
        "import os\n\n"
        "        return Key(os.environ.get('JOBS_API_KEY') or self.api_key(options) or '', url)",
        "calls_are_apart",
    ),
    ("a grant that shows its key", "key: str = field(repr=False)", "key: str", "no_secret_leaks"),
    (
        "no scheme",
        "    def parser(self",
        "    def sign(self, request, credential, options):\n"
        "        request.headers['Authorization'] = credential.value\n\n"
        "    def parser(self",
        "recorded_requests",
    ),
    ("another grant", "'grant_type': 'key'", "'grant_type': 'keys'", "recorded_requests"),
    ("no version", "/jobs?version=2", "/jobs", "recorded_requests"),
    ("another header", "X-Jobs-Version", "X-Job-Version", "recorded_requests"),
    ("another field", "'system': context", "'instructions': context", "recorded_requests"),
    ("POST instead of GET", "job.stream, method='GET'", "job.stream", "recorded_requests"),
    ("the cancel is never sent", "x.on_abandon(", "str(", "connections_are_closed"),
    (
        "the cancel is stated after the first piece",
        "        x.on_abandon(HTTPRequest(job.cancel))\n"
        "        async for data in x.stream(HTTPRequest(job.stream, method='GET')):\n",
        "        async for data in x.stream(HTTPRequest(job.stream, method='GET')):\n"
        "            x.on_abandon(HTTPRequest(job.cancel))\n",
        "connections_are_closed",
    ),
    (
        "a refused request is repeated",
        "job = await x.read(x.request(), Job)",
        "try:\n"
        "            job = await x.read(x.request(), Job)\n"
        "        except Exception:\n"
        "            job = await x.read(x.request(), Job)",
        "further_requests",
    ),
    (
        "the options of the latest call",
        "job = await x.read(x.request(), Job)",
        "self.latest = x.options\n"
        "        job = await x.read(x.request(), Job)\n"
        "        x.options = self.latest",
        "calls_are_apart",
    ),
    (
        "one job at a time",
        "job = await x.read(x.request(), Job)",
        "while self.__dict__.get('busy'):\n"
        "            await x.sleep(0.5)\n"
        "        self.busy = True\n"
        "        try:\n"
        "            job = await x.read(x.request(), Job)\n"
        "        finally:\n"
        "            self.busy = False",
        "calls_are_apart",
    ),
    (
        "a failed stream says nothing",
        "    async def exchange(self, x",
        "    async def exchange(self, x):\n"
        "        try:\n"
        "            async for piece in self.exchanged(x):\n"
        "                yield piece\n"
        "        except Exception:\n"
        "            yield b'event: end\\ndata: done\\n\\n'\n\n"
        "    async def exchanged(self, x",
        "errors",
    ),
    (
        "the address of tokens is not the user's",
        "options.settings.get('tokens', TOKENS)",
        "TOKENS",
        "credentials",
    ),
    (
        "pieces without a line's end are lost",
        "            yield data\n",
        "            yield data if b'\\n' in data else b''\n",
        "same_events",
    ),
    (
        "calls share the beginning of a line",
        "            yield data\n",
        "            self.begun = self.__dict__.get('begun', b'') + data\n"
        "            if b'\\n' in data:\n"
        "                data, self.begun = self.begun, b''\n"
        "                yield data\n",
        "same_events",
    ),
    (
        "the counts are not read",
        "counts = await x.read(",
        "return\n        counts = await x.read(",
        "expected_messages",
    ),
]


def subject(recordings: Path | None = None) -> Subject:
    point = EntryPoint("jobs", f"{PACKAGE}:Jobs", "swink.providers")
    entry = SimpleNamespace(
        name="jobs",
        group=point.group,
        value=point.value,
        load=point.load,
        dist=SimpleNamespace(name="jobs-provider", version="1.0"),
    )
    paths = None if recordings is None else [recordings]
    return Subject("jobs", Host(entry_points=[entry], environ={}), recording_paths=paths)


def save_changed(
    folder: Path, change: Callable[[RecordedLeg], RecordedLeg], asked: Any = None
) -> None:
    """Save the recordings with changed legs and, unless it is `None`, another `asked`."""
    for each in subject().recordings:
        facts = {"message": each.message, "origins": each.origins, "asked": asked or each.asked}
        legs = [change(leg) for leg in each.legs]
        made = Recording.of(legs, each.provider, each.model, wire_format="jobs", **facts)
        made.save(folder / each.name)


@pytest.fixture(autouse=True)
def _fixtures_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FIXTURES))


def test_a_provider_of_several_requests_passes() -> None:
    results = run_checks(PROVIDER_CHECKS, subject())

    assert [f"{r.name}: {r.detail}" for r in results if r.is_fault] == []
    applied = {result.name for result in results if result.applied}
    assert {
        "further_requests",
        "credentials",
        "recorded_requests",
        "connections_are_closed",
    } <= applied


@pytest.mark.parametrize(("name", "was", "now", "check"), FAULTS, ids=[f[0] for f in FAULTS])
def test_a_fault_of_a_further_request_is_found(name: str, was: str, now: str, check: str) -> None:
    mutant = edited(name, PACKAGE, was.replace("'", '"'), now.replace("'", '"'))
    if "SHARED" in now:
        source = mutant.source.replace("TOKENS =", "SHARED = []\nTOKENS =", 1)
        mutant = type(mutant)(mutant.name, mutant.module, source)
    [row] = [row for row in PROVIDER_CHECKS if row.name == check]
    with mutant.installed():
        result = run_check(row, subject())

    assert result.is_fault, result.detail


def test_a_token_that_follows_a_response_to_another_server_is_found() -> None:
    mutant = edited(
        "kept headers", PACKAGE, "HTTPRequest(job.counts, ", "HTTPRequest(**signed(job), "
    )
    helper = (
        "SIGNED = {}\n\n\n"
        "def signed(job):\n"
        "    return {'url': job.counts, 'headers': dict(SIGNED)}\n\n\n"
        "class Jobs("
    )
    signing = (
        "    def sign(self, request, credential, options):\n"
        "        SIGNED['Authorization'] = f'Bearer {credential.value}'\n"
        "        request.headers.update(SIGNED)\n\n"
        "    def parser(self"
    )
    source = mutant.source.replace("class Jobs(", helper, 1).replace(
        "    def parser(self", signing, 1
    )
    [row] = [row for row in PROVIDER_CHECKS if row.name == "credentials"]
    with type(mutant)(mutant.name, mutant.module, source).installed():
        result = run_check(row, subject())

    assert "http://elsewhere.invalid" in result.detail
    assert "is sent with the key" in result.detail


def test_a_provider_that_waits_between_its_requests_passes_the_check_of_its_tokens() -> None:
    mutant = edited("waits", PACKAGE, "x.on_abandon(", "await x.sleep(40.0)\n        x.on_abandon(")
    [row] = [row for row in PROVIDER_CHECKS if row.name == "credentials"]
    with mutant.installed():
        result = run_check(row, subject(), seconds=10.0)

    assert result.outcome is Outcome.PASSED, result.detail


def test_a_token_service_below_the_base_url_is_recognized_below_any_base_url(
    tmp_path: Path,
) -> None:
    def moved(leg: RecordedLeg) -> RecordedLeg:
        path = leg.request.path
        if leg.kind == "token":
            return evolve(leg, request=evolve(leg.request, path="/api/v2/token", origin=0))
        return evolve(leg, request=evolve(leg.request, path=path.replace("/v1/", "/api/v2/")))

    below = "self.base_url(options) + '/token'".replace("'", '"')
    was = "options.settings.get('tokens', TOKENS)".replace("'", '"')
    asked = {"address": "https://api.jobs.example/api/v2"}
    save_changed(tmp_path, moved, asked)
    [row] = [row for row in PROVIDER_CHECKS if row.name == "calls_are_apart"]
    with edited("below", PACKAGE, was, below).installed():
        result = run_check(row, subject(tmp_path))

    assert result.outcome is Outcome.PASSED, result.detail


def test_a_request_of_another_concurrent_call_is_named_with_a_remedy() -> None:
    mixed = (
        "self.latest = x.options\n"
        "        await x.sleep(0)\n"
        "        x.options = self.latest\n"
        "        job = await x.read(x.request(), Job)"
    )
    mutant = edited("mixed up", PACKAGE, "job = await x.read(x.request(), Job)", mixed)
    [row] = [row for row in PROVIDER_CHECKS if row.name == "calls_are_apart"]
    with mutant.installed():
        result = run_check(row, subject())

    assert "POST http://at-once-2.invalid" in result.detail
    assert "add a recording of a call that fetches one" in result.detail


CANCELS = [
    ("the provider sends the cancel", "HTTPRequest(job.cancel, method='DELETE')", Outcome.PASSED),
    ("the cancel is never sent", "", Outcome.FAILED),
]


@pytest.mark.parametrize(("name", "cancel", "outcome"), CANCELS, ids=[c[0] for c in CANCELS])
def test_a_cancel_by_a_method_that_no_whole_answer_has_is_checked(
    name: str, cancel: str, outcome: Outcome, tmp_path: Path
) -> None:
    def cancelled(leg: RecordedLeg) -> RecordedLeg:
        method = "DELETE" if leg.kind == "abandon" else leg.request.method
        return evolve(leg, request=evolve(leg.request, method=method))

    save_changed(tmp_path, cancelled)
    now = f"x.on_abandon({cancel})" if cancel else "pass"
    mutant = edited(name, PACKAGE, "x.on_abandon(HTTPRequest(job.cancel))", now.replace("'", '"'))
    [row] = [row for row in PROVIDER_CHECKS if row.name == "connections_are_closed"]
    with mutant.installed():
        result = run_check(row, subject(tmp_path))

    assert result.outcome is outcome, result.detail


@pytest.mark.parametrize("check", ["answers_are_read", "large_input"])
def test_the_response_of_a_failed_job_is_no_stream(check: str, tmp_path: Path) -> None:
    def failed(leg: RecordedLeg) -> RecordedLeg:
        body = b'{"fault": "Busy."}'
        return evolve(leg, status=200, body=body, chunks=[(0.0, len(body))])

    class Strict:
        def __init__(self) -> None:
            self._inner, self._begun = SSEDecoder.named_text(), b""

        def feed(self, data: bytes) -> list[bytes]:
            self._begun = self._begun or data
            if self._begun.startswith(b"{"):
                raise FrameTooLong("a frame", 1)
            return self._inner.feed(data)

        def finish(self) -> list[bytes]:
            return self._inner.finish()

    source = edited(
        "strict",
        PACKAGE,
        "job = await x.read(x.request(), Job)",
        "job = await x.read(x.request(), Job)\n"
        "        if job.fault:\n"
        "            raise ProviderFailure(Failure('request', message=job.fault))",
    ).source
    for was, now in (
        ("    stream: str\n", "    fault: str = ''\n    stream: str = ''\n"),
        ("    counts: str\n", "    counts: str = ''\n"),
        ("    cancel: str\n", "    cancel: str = ''\n"),
        ("    Model,\n", "    Model,\n    ProviderFailure,\n"),
    ):
        source = source.replace(was, now, 1)
    [refused] = [each for each in subject().recordings if each.name == "refused"]
    assert refused.message is not None
    message = replace(refused.message, error_message="Busy.")
    legs = [leg if leg.kind == "token" else failed(leg) for leg in refused.legs]
    made = Recording.of(legs, "jobs", "large", message=message, origins=refused.origins)
    made.save(tmp_path / "failed-job")
    [row] = [row for row in PROVIDER_CHECKS if row.name == check]
    with Mutant("strict", PACKAGE, source).installed():
        found = subject(tmp_path)
        type(found.provider).decoder = Strict
        result = run_check(row, found)

    assert not result.is_fault, result.detail


def test_a_check_that_reaches_another_machine_fails_by_name() -> None:
    class Calling:
        def __init__(self, name: str) -> None:
            socket.create_connection(("192.0.2.1", 443), timeout=0.01)

    entry = SimpleNamespace(
        name="calling", group="swink.providers", value="calling:Calling", load=lambda: Calling,
        dist=SimpleNamespace(name="calling", version="1"),
    )  # fmt: skip
    [row] = [row for row in PROVIDER_CHECKS if row.name == "loads"]

    result = run_check(row, Subject("calling", Host(entry_points=[entry], environ={})))

    assert result.is_fault
    told = " ".join(map(str, result.faults))
    assert "it connects to 192.0.2.1:443 by itself" in told


@pytest.mark.parametrize(
    ("note", "origin", "counts"),
    [
        ("", "https://api.jobs.example", True),
        ("", None, True),
        ("Written by hand.", "https://api.jobs.example", False),
        ("", "http://127.0.0.1:8000", False),
        ("A live answer of an engine.", "http://127.0.0.1:8000", True),
    ],
)
def test_recordings_of_a_real_server_are_evidence(
    note: str, origin: str | None, counts: bool
) -> None:
    recording = Recording("jobs", "large", b"", [], note=note, origins=[origin] if origin else [])

    assert is_of_a_server(recording) is counts


def test_evidence_counts_what_recordings_show() -> None:
    evidence = evidence_of(subject())

    backed = {f"{item.kind}: {item.name}" for item in evidence.backed}
    assert {"request: token", "request: abandon", "stop: length", "option: max_tokens"} <= backed
    assert "failure: auth" in {f"{item.kind}: {item.name}" for item in evidence.missing}


@pytest.mark.heavy
def test_mutants_of_a_package_that_survive_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = edited("silent", PACKAGE, "out.notice(", "print(")
    mutants = [Mutant(f"{PACKAGE}.Parser.feed unsaid 1", PACKAGE, silent.source)]
    same = edited("same", PACKAGE, "context.system_prompt or None", "context.system_prompt")
    mutants.append(Mutant(f"{PACKAGE}.Jobs.convert same 1", PACKAGE, same.source, "/plugin.py:7"))
    monkeypatch.setattr(command, "mutants_of", lambda _: mutants)

    command._show_mutants("jobs", subject(), subject, as_json=False)

    out = capsys.readouterr().out
    assert "/plugin.py:7: jobs_provider.Jobs.convert same 1 survives: a recording of a" in out
    assert "jobs: 1 of 2 mutants found" in out


def test_loopback_stays_open_to_checks() -> None:
    async def connect(port: int) -> None:
        _, writer = await asyncio.open_connection("localhost", port)
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as server, loopback_only() as refused:
        asyncio.run(connect(server.getsockname()[1]))

    assert refused == []


SELF_RECORDED = [
    ("usage is dropped", "out.usage(counts.prompt_tokens, counts.output_tokens)", "pass"),
    ("errors in the stream are swallowed", "case 'error':", "case 'no error':"),
    (
        "the last output is lost",
        "out.text(event.data)",
        "out.text(self.__dict__.get('held', ''))\n                self.held = event.data",
    ),
    (
        "outputs are swapped in pairs",
        "out.text(event.data)",
        "self.__dict__.setdefault('held', []).append(event.data)\n"
        "                if len(self.held) % 3 == 0:\n"
        "                    out.text(self.held[-1])\n"
        "                    out.text(self.held[-2])\n"
        "                elif len(self.held) % 3 == 1:\n"
        "                    out.text(event.data)",
    ),
    (
        "blank outputs are lost",
        "out.text(event.data)",
        "out.text(event.data if event.data.strip() else '')",
    ),
    (
        "lines of an event are joined",
        "out.text(event.data)",
        "out.text(event.data.replace('\\n', ''))",
    ),
    ("output tokens are off by one", "counts.output_tokens)", "counts.output_tokens + 1)"),
    (
        "input and output are swapped",
        "out.usage(counts.prompt_tokens, counts.output_tokens)",
        "out.usage(counts.output_tokens, counts.prompt_tokens)",
    ),
]


@pytest.mark.parametrize(("name", "was", "now"), SELF_RECORDED, ids=[f[0] for f in SELF_RECORDED])
def test_a_fault_that_wrote_its_own_expectation_is_found(
    name: str, was: str, now: str, tmp_path: Path
) -> None:
    mutant = edited(name, PACKAGE, was.replace("'", '"'), now.replace("'", '"'))
    with mutant.installed():
        mutated = subject()
        for recording in mutated.whole_calls:
            events = asyncio.run(mutated.played_events(recording))
            evolve(recording, message=fold(events, "jobs", "large")).save(tmp_path / recording.name)
        found = subject(recordings=tmp_path)
        killer = killed_by(found)

    assert killer is not None
