"""Explains a failed check: the file and line in the plugin, the request, and the expected value."""

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
from swink_testing.conformance.check import Broken, Check, Result
from swink_testing.conformance.subject import Subject

__all__ = ["explain"]

SHOWN = 4000
"""The maximum number of characters of a request that an explanation shows."""

_PLACES: dict[str, Callable[[Subject], Any]] = {
    "convert": lambda subject: subject.provider.convert,
    "request": lambda subject: subject.provider.request,
    "parser": lambda subject: type(subject.provider.parser(subject.model)).feed,
    "classify": lambda subject: subject.provider.classify,
    "stream": lambda subject: subject.provider.stream,
    "error_facts": lambda subject: subject.provider.error_facts,
    "exchange": lambda subject: subject.provider.exchange,
    "credential": lambda subject: subject.provider.credential,
    "sign": lambda subject: subject.provider.sign,
}

_OF_DATA = ("provider_info", "catalogue")
"""Checks whose faults are in the package's catalogue file, not in its code."""


def explain(subject: Subject, check: Check[Subject], result: Result) -> Iterator[str]:
    """Yield lines that say where to look for the faults of a check that failed."""
    yield f"{check.name}: {check.about}"
    yield f"  of {check.module}; the reference of the conformance kit has a row: #{check.name}"
    for fault in result.faults:
        yield f"  {fault}"
        for place in dict.fromkeys(_places(subject, check, fault)):
            yield f"    at {place}"
        if isinstance(fault, Broken):
            if fault.sent is not None:
                yield f"    sent: {_written(fault.sent)}"
            if fault.expected is not None:
                yield f"    expected: {_written(fault.expected)}"


def _places(subject: Subject, check: Check[Subject], fault: BaseException) -> Iterator[str]:
    spec = find_spec(subject.entry.package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    for frame in reversed(traceback.extract_tb(fault.__traceback__)):
        if any(Path(frame.filename).is_relative_to(folder) for folder in folders):
            yield f"{frame.filename}:{frame.lineno}"
            return
    if check.name in _OF_DATA:
        yield from (str(folder / FILE) for folder in folders)
    elif subject.fault is None:
        for name in check.looks_at:
            try:
                code = inspect.unwrap(_PLACES[name](subject)).__code__
            except Exception:  # the provider has no such function
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
