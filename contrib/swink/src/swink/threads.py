"""Run blocking functions in daemon threads, which do not delay the end of the program.

An executor is unsuitable: `asyncio.run` and the interpreter wait for its threads, even if their
results are no longer needed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

__all__ = ["in_thread"]


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a thread, in the current context; return its result or raise its error."""
    loop, context = asyncio.get_running_loop(), copy_context()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((result, error))

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed, so the result is no longer needed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="swink-tool", daemon=True).start()
    result, error = await done
    if error is not None:
        raise error
    return result
