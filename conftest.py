"""What twenty thousand tests would pay for each, and pay for once in a while.

The garbage collector looks at no test that was only collected: they live to the end of the run. Nor
does it look at what a module of tests has left, such as the modules that it imported. These are
most of what a worker holds, and each full collection, those that tests of leaks ask for among them,
would go through all.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest_plugins = ["seconds_by_distribution", "swink_test_helpers.forked_commands"]

YOUNG = 20_000
"""Objects made until the collector looks at the young ones: tests make many that live on."""


@given(st.none())
def _first_property(_: None) -> None:
    """Let Hypothesis make its random numbers before objects are frozen.

    It warns unless it finds what refers to them, and finds no frozen object.
    """


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests with the collector off, and leave out from then on what there is."""
    gc.disable()
    try:
        return (yield)
    finally:
        _first_property()
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """After a module's last test, collect its garbage, and leave out what lives on."""
    try:
        return (yield)
    finally:
        if nextitem is not None and nextitem.path != item.path:
            gc.collect()
            gc.freeze()
