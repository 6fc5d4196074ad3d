"""Recorded cases that are kept outside the repository, for the tests of any distribution.

    from swink_test_helpers.corpus import Case, cases, ids

    @pytest.mark.parametrize("case", cases("acme"), ids=ids)
    def test_the_recorded_text_arrives(case: Case) -> None: ...

The folder is named by SWINK_CORPUS, or is `../shared/corpus` relative to the current folder. A case
is a body beside a sidecar `NAME.meta.json` with the name of the body's `file`, its HTTP response
(`http`), the `features` that it shows and the results of independent readers (`expect`). If the
folder does not exist, pytest skips the tests that are parametrised with its cases, and reports
their number once. Sidecars and bodies are read when a test uses them.
"""

from __future__ import annotations

import json
import os
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from swink_core import Host
from swink_core.plugins.host import PROVIDER_GROUP
from swink_recorder.recording import Recording, bundled_recordings

__all__ = ["CORPUS_ENV", "Case", "cases", "corpus_folder", "error_cases", "ids"]
__all__ += ["shipped_answers", "shipped_by_wire_format", "stream_cases"]

CORPUS_ENV = "SWINK_CORPUS"
"""The environment variable that names the folder."""

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
        """The recorded response body."""
        file: str = self.meta["file"]
        return (self._sidecar.parent / file).read_bytes()

    @property
    def expect(self) -> dict[str, Any]:
        """The results of independent readers for the body."""
        data: dict[str, Any] = self.meta["expect"]
        return data

    @property
    def reference(self) -> dict[str, Any]:
        """The mechanical reading of a stream: text, reasoning, tool calls, usage, error."""
        data: dict[str, Any] = self.expect["reference_parse"]
        return data

    @property
    def features(self) -> frozenset[str]:
        """The features that the case shows."""
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


def corpus_folder() -> Path:
    """Return where the corpus is, if it is anywhere."""
    return Path(os.environ.get(CORPUS_ENV) or "../shared/corpus").resolve()


def cases(folder: str) -> list[Case]:
    """List the cases of one folder of the corpus, by name."""
    return [Case(path) for path in sorted((corpus_folder() / folder).glob(f"*{_SIDECAR}"))]


def stream_cases(folder: str) -> list[Case]:
    """List those that are streams. It reads the sidecars."""
    return [case for case in cases(folder) if not case.is_http_error]


def error_cases(folder: str) -> list[Case]:
    """List those that are HTTP errors. It reads the sidecars."""
    return [case for case in cases(folder) if case.is_http_error]


def shipped_answers(package: str) -> list[Recording]:
    """List the completed answers among the recordings that a package ships, which are always here.

    They have a `name` and a `body` as cases have.
    """
    found = [Recording.load(folder) for folder in bundled_recordings(package)]
    return [r for r in found if r.message is not None and r.message.error_kind is None]


def shipped_by_wire_format(host: Host, package: str, own: str) -> dict[str, list[Recording]]:
    """Group the recordings that a package ships by wire format.

    A package without recordings gets those of the wire format `own` that another provider ships.
    """
    if groups := _by_wire_format(package):
        return groups
    for entry in host.entries():
        others = _by_wire_format(entry.package) if entry.group == PROVIDER_GROUP else {}
        if own in others:
            return {own: others[own]}
    return {}


@cache
def _by_wire_format(package: str) -> dict[str, list[Recording]]:
    groups: dict[str, list[Recording]] = {}
    for folder in bundled_recordings(package):
        recording = Recording.load(folder)
        groups.setdefault(recording.wire_format, []).append(recording)
    return groups


def ids(case: Case | Recording) -> str:
    """Name a case in pytest's output."""
    return case.name
