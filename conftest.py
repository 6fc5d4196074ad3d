"""Coroutine tests and Hypothesis profiles, for every test folder of the checkout."""

import asyncio
import functools
import inspect
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import settings

# A shell passes an ignored interrupt on to what it runs in the background, and Python leaves it
# ignored; the programs that these tests start and interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ASYNC_TEST_SECONDS = 120
"""A coroutine test that takes longer is stuck; failing says where, hanging does not."""

# Reproducible by default (the same examples on every run, no deadline that a busy
# machine can miss); `make fuzz` looks for new ones.
settings.register_profile("swink", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile("swink")


def _run_to_end(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(ASYNC_TEST_SECONDS):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Give each coroutine test an event loop of its own, as a script would have."""
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        _run_to_end(test)(**arguments)
        return True
    # Hypothesis calls the coroutine function itself, once per example.
    given = getattr(test, "hypothesis", None)
    if given is not None and inspect.iscoroutinefunction(given.inner_test):
        given.inner_test = _run_to_end(given.inner_test)
    return None
