"""The matrix of faults as tests: every row before every provider.

Time passes by an injected clock; where a fault is a matter of real time, it is milliseconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

import swink_core as swink
from swink_core import Done
from swink_core import StreamErrorKind as Kind
from swink_test_helpers.fault_matrix.call import (
    STUCK_SECONDS,
    asks_another_api,
    assert_kept,
    call,
    requests_for,
)
from swink_test_helpers.fault_matrix.expected import (
    KNOWN,
    MALFORMED,
    NOTICES,
    SAYS_NOTHING,
    STALLS,
    retries_of,
)
from swink_test_helpers.fault_matrix.subject import FaultSubject, offsets, subjects
from swink_testing.chaos import (
    HUGE_FRAME,
    Broken,
    Cut,
    Fault,
    Instead,
    Says,
    Stall,
    standard_faults,
)
from swink_testing.clock import ManualClock
from swink_testing.conformance.check import DoesNotApply
from swink_testing.conformance.failures.further_requests import check_further_requests
from swink_testing.conformance.subject import Subject
from swink_testing.expected_faults import AFTER_THE_END, FAILS, FULL_STREAM, HALFWAY

__all__ = ["FaultMatrix"]


UNDER_WAY = 8 * 1024 * 1024
"""Bytes that buffers may hold of what is no longer read, where the system does not say."""


ONE_READ = 1024 * 1024
"""Bytes that may be taken in beyond a limit before it is noticed."""


def held_by_sockets() -> int:
    """Return the most unread bytes that the two sockets of a connection may hold.

    Linux lets them grow as far as this, the more the later they are read (tcp(7)).
    """
    try:
        rows = [Path(f"/proc/sys/net/ipv4/tcp_{which}").read_text() for which in ("rmem", "wmem")]
        return UNDER_WAY + sum(int(row.split()[2]) for row in rows)
    except OSError:
        return UNDER_WAY


def faults_of(subject: FaultSubject) -> dict[str, Fault]:
    return standard_faults(subject.answer())


class FaultMatrix:
    """The behaviour of a provider when its server fails, as tests.

    `provider` is the name of one; `None` is every provider that is installed, speaks HTTP and has a
    recording to spoil.
    """

    provider: ClassVar[str | None] = None

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make each test one of each subject; pytest calls it on collection."""
        if "subject" in metafunc.fixturenames:
            metafunc.parametrize("subject", subjects(self.provider), ids=repr)

    def test_every_standard_fault_has_an_expectation(self, subject: FaultSubject) -> None:
        assert faults_of(subject).keys() <= KNOWN

    @pytest.mark.parametrize("name", sorted(FULL_STREAM))
    async def test_what_does_not_touch_the_answer_changes_nothing(
        self, subject: FaultSubject, name: str
    ) -> None:
        fault = faults_of(subject).get(name)
        if fault is None:
            pytest.skip("this wire format's frames are binary")
        if name in AFTER_THE_END and await subject.reads_on():
            pytest.skip("this wire format's answers end with their bytes alone")
        outcome = await call(subject, [fault])
        assert isinstance(outcome.terminal, Done)
        assert outcome.requests == 1
        assert outcome.notices == NOTICES.get(name, [])
        await assert_kept(subject, outcome, subject.answer().body)

    @pytest.mark.parametrize("name", sorted(FAILS))
    async def test_what_fails_before_an_answer_has_its_kind_and_its_retries(
        self, subject: FaultSubject, name: str
    ) -> None:
        fault = faults_of(subject).get(name)
        if fault is None:
            pytest.skip("this wire format's frames are not server-sent events")
        kind, retries = FAILS[name], retries_of(name)
        outcome = await call(subject, [fault])
        assert outcome.kind == kind
        others = name == "status-404" and asks_another_api(subject)
        assert outcome.requests == 1 + retries + others
        assert outcome.message.content == []

    @pytest.mark.parametrize("name", sorted(HALFWAY))
    async def test_what_fails_halfway_keeps_what_came(
        self, subject: FaultSubject, name: str
    ) -> None:
        answer = subject.answer()
        arrived = answer.body[: len(answer.body) // 2]
        outcome = await call(subject, [faults_of(subject)[name]])
        assert outcome.kind == HALFWAY[name]
        assert outcome.requests == await requests_for(subject, arrived, HALFWAY[name])
        await assert_kept(subject, outcome, arrived)

    @pytest.mark.parametrize("name", sorted(STALLS))
    async def test_a_stall_ends_at_the_limit_and_closes_the_connection(
        self, subject: FaultSubject, name: str
    ) -> None:
        answer, after = subject.answer(), STALLS[name]
        half = len(answer.body) // 2 if after == -1 else 0
        body = answer.body[: max((end for end in answer.ends if end <= half), default=0)]
        outcome = await call(subject, [faults_of(subject)[name]], clock=ManualClock())
        assert outcome.kind == Kind.TIMEOUT
        assert outcome.terminal.code == ("idle" if after == -1 else "first_event")
        retries = None if after == -1 else 1
        assert outcome.requests == await requests_for(subject, body, Kind.TIMEOUT, retries)
        await assert_kept(subject, outcome, body)

    @pytest.mark.parametrize(
        "reset", [False, pytest.param(True, marks=pytest.mark.heavy)], ids=["closed", "reset"]
    )
    async def test_a_connection_lost_after_any_byte(
        self, subject: FaultSubject, reset: bool
    ) -> None:
        answer = subject.answer()
        completes_at = await subject.completes_at(answer)
        for offset in offsets(answer, seed=reset):
            outcome = await call(subject, [Cut(offset, reset)], retry=swink.RetryPolicy.none())
            assert isinstance(outcome.terminal, Done) is (offset >= completes_at), offset
            assert outcome.kind in (None, Kind.NETWORK)
            await assert_kept(subject, outcome, answer.body[:offset])

    async def test_a_stall_after_any_frame(
        self, subject: FaultSubject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("swink_core.streaming.driver.SETTLE_SECONDS", 5.0)
        answer = subject.answer()
        completes_at = await subject.completes_at(answer)
        for end in answer.ends[:: max(1, len(answer.ends) // 6)]:
            none = swink.RetryPolicy.none()
            outcome = await call(subject, [Stall(end)], clock=ManualClock(), retry=none)
            assert isinstance(outcome.terminal, Done) is (end >= completes_at), end
            assert outcome.kind in (None, Kind.TIMEOUT)
            await assert_kept(subject, outcome, answer.body[:end])

    # -- bodies that are not what they should be ---------------------------------------------------

    async def test_a_truncated_gzip_body_is_a_cut_stream(self, subject: FaultSubject) -> None:
        outcome = await call(subject, [faults_of(subject)["gzip-truncated"]])
        assert outcome.kind == Kind.NETWORK
        seen = bool(outcome.message.content)
        assert outcome.requests == (1 if seen else 4)

    async def test_a_frame_of_a_hundred_megabytes_is_refused_unread(
        self, subject: FaultSubject
    ) -> None:
        fault = faults_of(subject).get("huge-frame")
        if fault is None:
            pytest.skip("this wire format's frames are binary")
        outcome = await call(subject, [fault])
        assert outcome.kind == Kind.PROTOCOL
        assert outcome.terminal.code == "frame"
        answer = subject.answer()
        before = b"".join(answer.frames[: len(answer.ends) // 2])
        assert outcome.requests == await requests_for(subject, before, Kind.PROTOCOL)
        limit = int(outcome.terminal.error_message.partition("the limit of ")[2].split()[0])
        assert outcome.read < (limit + ONE_READ) * outcome.requests
        most = min(limit + held_by_sockets(), HUGE_FRAME)
        assert outcome.sent < most * outcome.requests
        await assert_kept(subject, outcome, before)

    @pytest.mark.parametrize(("policy", "at", "kind"), MALFORMED)
    async def test_damaged_frames_are_passed_over_within_bounds_and_counted_as_notices(
        self, subject: FaultSubject, policy: str, at: tuple[int, ...], kind: Kind | None
    ) -> None:
        answer = subject.answer()
        if answer.framing is None:
            pytest.skip("this wire format's frames are binary")
        if len(answer.ends) < 12:
            pytest.skip("no recording of this wire format has twelve frames")
        outcome = await call(subject, [Broken(at)], malformed=policy)
        assert outcome.kind == kind
        spent = len(at) > 10 or len(at) - len({*at}) > 2
        body = b"".join(answer.frames[: at[-1]]) if spent or policy == "fail" else answer.body
        made = 1 if kind is None else await requests_for(subject, body, kind)
        assert outcome.requests == made
        passed_over = 0 if policy == "fail" else len(at) - spent
        assert outcome.notices == ["malformed_frame"] * passed_over * made
        await assert_kept(subject, outcome, body)
        if kind is not None:
            assert outcome.terminal.code == ("malformed" if spent else "damaged_frame")

    async def test_keep_alives_alone_are_no_progress(self, subject: FaultSubject) -> None:
        fault = faults_of(subject).get("keep-alives-only")
        if fault is None:
            pytest.skip("this wire format has no keep-alives")
        limit = swink.Timeouts(first_event=100.0)
        outcome = await call(subject, [fault], clock=ManualClock(), step=60.0, timeouts=limit)
        assert outcome.kind == Kind.TIMEOUT
        assert outcome.requests == 2

    # -- the provider's own errors -----------------------------------------------------------------

    async def test_an_error_in_the_stream_has_its_kind_wherever_it_comes(
        self, subject: FaultSubject
    ) -> None:
        answer = subject.answer()
        for recording in await subject.told_errors():
            frame, is_framed = await subject.error_frame(recording)
            assert recording.message is not None
            kind = recording.message.error_kind
            assert kind is not None
            completes_at = await subject.completes_at(answer)
            before = [end for end in (0, *answer.ends) if end < completes_at]
            for place in sorted({*range(4), len(before) // 2, len(before) - 1}):
                outcome = await call(
                    subject, [Says(frame, place, goes_on=is_framed and place % 2 == 1)]
                )
                assert outcome.kind == kind, place
                body = answer.body[: before[place]]
                assert outcome.requests == await requests_for(subject, body, kind), place
                await assert_kept(subject, outcome, body)

    async def test_a_refusal_has_the_kind_that_its_body_tells(self, subject: FaultSubject) -> None:
        for recording in subject.refusals:
            assert recording.message is not None
            kind = recording.message.error_kind
            fault = Instead(recording.status, recording.body, headers=recording.headers)
            outcome = await call(subject, [fault], retry=swink.RetryPolicy.none())
            assert outcome.kind == kind
            assert outcome.terminal.status == recording.status

    @pytest.mark.parametrize("body", SAYS_NOTHING)
    async def test_a_status_with_a_body_that_says_nothing_is_judged_by_the_status(
        self, subject: FaultSubject, body: bytes
    ) -> None:
        for status in (400, 401, 404, 429, 500, 529):
            outcome = await call(subject, [Instead(status, body)], retry=swink.RetryPolicy.none())
            assert outcome.kind == FAILS[f"status-{status}"], status

    # -- the other requests of a call --------------------------------------------------------------

    def test_a_fault_of_each_other_request_of_a_call(self, subject: FaultSubject) -> None:
        """Each request for a token, a job or a result is refused, cut, broken off, delayed without
        end, and repeated after a failure. The faults are played in memory."""
        try:
            check_further_requests(Subject.find(subject.provider.name))
        except DoesNotApply as reason:
            pytest.skip(str(reason))

    # -- places where nobody listens ---------------------------------------------------------------

    @pytest.mark.parametrize(
        ("place", "kind", "codes", "retries"),
        [
            ("refused_url", Kind.NETWORK, {"connection_refused"}, 1),
            ("closed_url", Kind.NETWORK, {"disconnected", "connection"}, 3),
            ("not_tls_url", Kind.NETWORK, {"tls"}, 0),
            ("mute_url", Kind.TIMEOUT, {"connect"}, 3),
        ],
    )
    async def test_an_address_where_no_provider_is(
        self, subject: FaultSubject, place: str, kind: Kind, codes: set[str], retries: int
    ) -> None:
        limits = swink.Timeouts(connect=0.02 if place == "mute_url" else STUCK_SECONDS)
        outcome = await call(
            subject, base_url=lambda chaos: f"{getattr(chaos, place)}/v1", timeouts=limits
        )
        assert outcome.kind == kind
        assert outcome.terminal.code in codes
        assert outcome.attempts == 1 + retries

    # -- recovery ----------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "first",
        [Cut(), Cut(0), Cut(reset=True), Instead(503), Instead(429, headers={"Retry-After": "0"})],
        ids=repr,
    )
    async def test_a_call_that_fails_twice_and_then_succeeds_is_a_success(
        self, subject: FaultSubject, first: Fault
    ) -> None:
        outcome = await call(subject, [first, first, Fault()])
        assert isinstance(outcome.terminal, Done)
        assert outcome.requests == 3
        await assert_kept(subject, outcome, subject.answer().body)

    async def test_a_restart_after_output_gives_the_whole_answer_once(
        self, subject: FaultSubject
    ) -> None:
        half = len(subject.answer().body) // 2
        policy = swink.RetryPolicy(base=0.0, restart_after_output=True)
        outcome = await call(subject, [Cut(half), Cut(half, reset=True), Fault()], retry=policy)
        assert isinstance(outcome.terminal, Done)
        assert outcome.requests == 3
        await assert_kept(subject, outcome, subject.answer().body)
