"""The guarantees of the corpus reader for the other tests."""

from pathlib import Path

import pytest

from swink_test_helpers.corpus import CORPUS_ENV, Case, cases, error_cases, ids, stream_cases


@pytest.mark.parametrize("case", cases("sse"), ids=ids)
def test_a_body_has_the_size_that_its_sidecar_states(case: Case) -> None:
    assert len(case.body) == case.meta["size"]


def test_every_case_of_a_folder_is_a_stream_or_an_http_error() -> None:
    folder = "anthropic"

    names = {case.name for case in stream_cases(folder)} | {c.name for c in error_cases(folder)}

    assert names == {case.name for case in cases(folder)}


@pytest.mark.parametrize("case", error_cases("anthropic"), ids=ids)
def test_the_status_of_an_http_error_is_known(case: Case) -> None:
    assert case.status >= 400


def test_an_absent_folder_has_no_cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CORPUS_ENV, str(tmp_path / "absent"))

    assert cases("anthropic") == []
