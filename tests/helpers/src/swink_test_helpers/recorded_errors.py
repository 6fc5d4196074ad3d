"""The meaning of every recorded error for its provider: a pytest class to subclass.

    class TestRecordedErrors(RecordedErrors):
        models = {"acme": "acme/large"}
        expected = {"acme/http-429-rate-limit": StreamErrorKind.THROTTLED}

Each body comes as its provider's HTTP answer or stream, through the whole of the client. A folder
of the corpus is judged by the model that `models` names; a new case there wants a row in
`expected`, after its body was read. See `swink_test_helpers.corpus`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import swink_core as swink
from swink_core import StreamErrorKind
from swink_test_helpers.corpus import Case, error_cases, ids, stream_cases
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

__all__ = ["NONSENSE", "RecordedErrors"]

FAILED = frozenset({"midstream-error", "truncated", "corrupt-frame"})
"""Features of recorded streams that fail."""

NONSENSE = [
    b'{"error": {"message": "Foobar", "code": "foobar", "type": "foobar"}}',
    b'{"strange": true}',
    b"Foobar",
    b"",
]
"""Bodies that say nothing about a failure."""

ADDRESS = "http://provider.invalid"


class RecordedErrors:
    """A test for each recorded error, and one for each body that means nothing."""

    models: ClassVar[Mapping[str, str]]
    """The model that judges a folder's cases."""

    expected: ClassVar[Mapping[str, StreamErrorKind]]
    """The meaning of each case."""

    options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The API of a folder's streams, if the provider has several."""

    content_type: ClassVar[str] = "text/event-stream"
    """Of a stream whose recorder kept no headers."""

    @classmethod
    def cases(cls) -> list[Case]:
        """List the errors among the folders' cases."""
        found = []
        for folder in cls.models:
            found += error_cases(folder)
            found += [case for case in stream_cases(folder) if case.features & FAILED]
        return found

    def facts(self, case: Case) -> Mapping[str, Any]:
        """Return further facts in the error of an HTTP answer, by attribute."""
        return {}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Make a test of each case and each nonsense; pytest calls it on collection."""
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self.cases(), ids=ids)
        if "nonsense" in metafunc.fixturenames:
            metafunc.parametrize("model", sorted({*self.models.values()}))
            metafunc.parametrize("nonsense", NONSENSE)

    async def test_recorded_errors_have_the_reviewed_meaning(self, case: Case) -> None:
        """Judge one recorded body."""
        assert case.name in self.expected, "read the body and say what it means"
        error = await self.judged(case)
        assert error.error_kind == self.expected[case.name], error
        assert error.error_message
        if case.is_http_error:
            facts = {"status": case.status, **self.facts(case)}
            assert {name: getattr(error, name) for name in facts} == facts

    def test_every_expectation_is_of_a_case_that_is_there(self) -> None:
        """Refuse rows that no case has, as far as there are cases."""
        there = {case.name for case in self.cases()}
        assert not there or set(self.expected) <= there

    async def test_an_unmatched_failure_is_unknown_and_not_guessed(
        self, model: str, nonsense: bytes
    ) -> None:
        """Judge a status and a body that no provider gives."""
        import pytest

        http = MemoryHTTPClient(MemoryResponse([nonsense], 418, {"Content-Type": _JSON}))
        client = client_with(http=http, api_key="test-key", retry=swink.RetryPolicy())
        with pytest.raises(swink.UnknownFailure) as caught:
            await client.complete(model, "Hello", base_url=ADDRESS)
        assert caught.value.kind is StreamErrorKind.UNKNOWN
        assert caught.value.code in (None, "foobar")

    async def judged(self, case: Case) -> swink.Error:
        """Return the provider's classification of a case."""
        folder = case.name.partition("/")[0]
        content_type = self.content_type if case.status == 200 else _JSON
        headers = {"Content-Type": content_type, **case.headers}
        http = MemoryHTTPClient(MemoryResponse([case.body], case.status, headers))
        asked = {"base_url": ADDRESS, **self.options.get(folder, {})}
        client = client_with(http=http, api_key="test-key", retry=swink.RetryPolicy.none())
        async with client, client.stream(self.models[folder], "Hello", **asked) as stream:
            events = [event async for event in stream]
        assert len(http.requests) == 1
        assert isinstance(events[-1], swink.Error)
        return events[-1]


_JSON = "application/json"
