"""Scripts and helpers for the tests that drive the vendor with the vendors' own SDKs."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.vendor import Exchange, Fault, Vendor

__all__ = ["ANSWER", "CALLS", "SCHEMA", "THOUGHT", "last", "refused_with", "scripted", "vendor"]

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
THOUGHT = "Hm, let me see"
ANSWER = "It is three, 東京 🌊."
CALLS = [{"a": 1}, {"a": 2}]


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    """Run a vendor in a thread."""
    with Vendor() as vendor:
        yield vendor
    gc.collect()  # SDK clients close their sockets here, within the test that may warn


def scripted() -> str:
    """Return a prompt that makes the model think and call two tools, then answer."""
    calls = [{"call": "add", "arguments": each} for each in CALLS]
    turns = [[{"thought": THOUGHT}, *calls], [{"text": ANSWER}]]
    return f"Add. [[vendor {json.dumps({'turns': turns})}]]"


def last(vendor: Vendor) -> Exchange:
    """Return the vendor's record of the last request."""
    return vendor.state.record.exchanges[-1]


@contextmanager
def _fault(vendor: Vendor, fault: Fault) -> Iterator[None]:
    vendor.state.faults.add(fault)
    yield
    assert vendor.state.faults.waiting() == []


def refused_with(
    vendor: Vendor, fault: Fault, error: type[BaseException], call: Callable[[], Any]
) -> BaseException:
    """Check that a fault raises an SDK's own error, and return it."""
    with _fault(vendor, fault), pytest.raises(error) as raised:
        call()
    return raised.value
