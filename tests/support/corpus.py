"""The recorded cases that live beside this repository, for the tests of any distribution.

    from corpus import Case, cases, ids

    @pytest.mark.parametrize("case", cases("anthropic"), ids=ids)
    def test_the_recorded_text_arrives(case: Case) -> None: ...

The folder is `../shared/corpus` from the repository's root. Where it is absent there are no
cases, and pytest skips what is parametrised with none. Nothing is read before a test asks for it.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["CORPUS", "Case", "cases", "error_cases", "ids", "stream_cases"]

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"

_SIDECAR = ".meta.json"


class Case:
    """A recorded body and its sidecar. `name` is the folder and the file, without suffixes."""

    def __init__(self, sidecar: Path) -> None:
        self._sidecar = sidecar
        self.name = f"{sidecar.parent.name}/{sidecar.name.removesuffix(_SIDECAR)}"

    def __repr__(self) -> str:
        return f"Case({self.name!r})"

    @cached_property
    def meta(self) -> dict[str, Any]:
        """The sidecar: features, origin, http, request_body, expect."""
        data: dict[str, Any] = json.loads(self._sidecar.read_bytes())
        return data

    @cached_property
    def body(self) -> bytes:
        """The response body as it was recorded."""
        return (self._sidecar.parent / self.meta["file"]).read_bytes()

    @property
    def expect(self) -> dict[str, Any]:
        """What independent readers made of the body."""
        data: dict[str, Any] = self.meta["expect"]
        return data

    @property
    def reference(self) -> dict[str, Any]:
        """The mechanical reading of a stream: text, reasoning, tool calls, usage, error."""
        data: dict[str, Any] = self.expect["reference_parse"]
        return data

    @property
    def features(self) -> frozenset[str]:
        """What the case shows."""
        return frozenset(self.meta["features"])

    @property
    def status(self) -> int:
        """The response's status; 200 where the recorder kept none."""
        return int(self.meta.get("http", {}).get("status") or self.expect.get("status") or 200)

    @property
    def headers(self) -> dict[str, str]:
        """The response's headers; empty where the recorder kept none."""
        return dict(self.meta.get("http", {}).get("response_headers") or {})

    @property
    def is_http_error(self) -> bool:
        """Whether the body is that of an HTTP error and not a stream."""
        return bool(self.expect.get("http_error"))


def cases(folder: str) -> list[Case]:
    """List the cases of one folder of the corpus, by name."""
    return [Case(path) for path in sorted((CORPUS / folder).glob(f"*{_SIDECAR}"))]


def stream_cases(folder: str) -> list[Case]:
    """List those that are streams. It reads the sidecars."""
    return [case for case in cases(folder) if not case.is_http_error]


def error_cases(folder: str) -> list[Case]:
    """List those that are HTTP errors. It reads the sidecars."""
    return [case for case in cases(folder) if case.is_http_error]


def ids(case: Case) -> str:
    """Name a case in pytest's output."""
    return case.name
