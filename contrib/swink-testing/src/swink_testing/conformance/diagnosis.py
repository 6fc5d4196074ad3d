"""Where a check's fault is: the file and line of the plugin, what was sent, what was expected."""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swink_core import dump
from swink_core.plugins.package_data import FILE
from swink_testing.conformance.check import Broken, Result
from swink_testing.conformance.subject import Subject

__all__ = ["explain"]

SHOWN = 4000
"""Characters of what was sent that are shown."""

_PLACES: dict[str, Callable[[Subject], Any]] = {
    "convert": lambda subject: subject.provider.convert,
    "request": lambda subject: subject.provider.request,
    "parser": lambda subject: type(subject.provider.parser(subject.model)).feed,
    "classify": lambda subject: subject.provider.classify,
    "stream": lambda subject: subject.provider.stream,
    "error_facts": lambda subject: subject.provider.error_facts,
    "credential": lambda subject: subject.provider.credential,
    "sign": lambda subject: subject.provider.sign,
}

_ABOUT = {
    "grammar": ("stream",), "never_blocks": ("parser", "stream"),
    "cancelling_closes": ("stream",),
    "same_events_however_cut": ("parser",), "expected_message": ("parser",),
    "truncation": ("parser",), "unknown_frames": ("parser",), "stop_reasons": ("parser",),
    "pieces": ("parser",), "side_by_side": ("parser",), "damaged_frames": ("parser",),
    "error_bodies": ("error_facts", "classify"), "error_wordings": ("classify",),
    "retries_are_alike": ("request", "sign"), "same_requests": ("request", "convert"),
    "order_is_kept": ("convert", "request"),
    "missing_usage": ("parser",), "counts": ("parser",), "unknown_fields": ("parser",),
    "counts_are_held": ("parser",), "signatures_apart": ("parser",), "ends_of_others": ("parser",),
    "own_thinking_goes_back": ("convert",), "context_is_kept": ("convert",),
    "schemas_keep_names": ("convert",),
    "calls_are_apart": ("request", "sign"), "environment_counts": ("credential",),
    "spelling": ("parser",), "early_reasons": ("parser",),
    "connections_are_closed": ("stream",), "calls_are_forgotten": ("parser", "request"),
    "in_stream_errors": ("parser",), "standard_faults": ("parser",), "large_input": ("parser",),
    "whole_answers": ("parser",), "http_errors": ("classify",), "listed_errors": ("classify",),
    "listed_answers": ("parser",),
    "conversations": ("convert",), "nothing_foreign_sent": ("convert",),
    "answers_go_back": ("convert",), "unsupported_features": ("request",),
    "nothing_dropped": ("request", "convert"), "other_models": ("request", "convert"),
    "capabilities_are_used": ("convert",), "differences_are_sent": ("request", "convert"),
    "requests_are_accepted": ("request", "convert"),
    "listed_requests": ("request", "convert"), "no_secret_leaks": ("request",),
}  # fmt: skip
"""Which of the plugin's functions a check is about."""

_OF_DATA = ("provider_info", "catalogue")
"""Checks that are about the data of the package."""


def explain(subject: Subject, result: Result) -> Iterator[str]:
    """Yield lines that say where to look for the fault of a check that failed."""
    yield f"{result.name}: {result.detail}"
    for place in dict.fromkeys(_places(subject, result)):
        yield f"  at {place}"
    error = result.error
    if isinstance(error, Broken):
        if error.sent is not None:
            yield f"  sent: {_written(error.sent)}"
        if error.expected is not None:
            yield f"  expected: {_written(error.expected)}"


def _places(subject: Subject, result: Result) -> Iterator[str]:
    spec = find_spec(subject.entry.package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    for frame in reversed(
        traceback.extract_tb(result.error.__traceback__ if result.error else None)
    ):
        if any(Path(frame.filename).is_relative_to(folder) for folder in folders):
            yield f"{frame.filename}:{frame.lineno}"
            return
    if result.name in _OF_DATA:
        yield from (str(folder / FILE) for folder in folders)
    elif subject.fault is None:
        for name in _ABOUT.get(result.name, ()):
            try:
                code = inspect.unwrap(_PLACES[name](subject)).__code__
            except Exception:  # what it has not, or does not make, is no place
                continue
            yield f"{code.co_filename}:{code.co_firstlineno} ({code.co_qualname})"


def _written(data: Any) -> str:
    if isinstance(data, bytes):
        text = data.decode("utf-8", "replace")
    elif isinstance(data, str):
        text = data
    else:
        text = json.dumps(data, ensure_ascii=False, default=dump)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
