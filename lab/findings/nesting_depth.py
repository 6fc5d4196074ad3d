"""Print how deeply nested tool arguments may be for each operation on a message.

    python -m lab.findings.nesting_depth

A provider's answer decides the depth, so no operation may raise where another one succeeded.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import swink_core as swink

DEPTHS = (50, 100, 128, 150, 200, 300, 500, 900)


def _data(depth: int) -> Any:
    data: Any = []
    for _ in range(depth):
        data = [data]
    return data


def message(depth: int) -> swink.AssistantMessage:
    """Return an answer with a tool call whose arguments are nested so deeply."""
    call = swink.ToolCallBlock("call_0", "look", {"a": _data(depth)})
    return swink.AssistantMessage([call])


OPERATIONS: dict[str, Callable[[int], object]] = {
    "swink.dump": lambda depth: swink.dump(message(depth)),
    "swink.load": lambda depth: swink.load(
        swink.AssistantMessage,
        {
            "role": "assistant",
            "content": [
                {"type": "tool_call", "id": "c", "name": "look", "arguments": {"a": _data(depth)}}
            ],
        },
    ),
    "==": lambda depth: message(depth) == message(depth),
    "repr": lambda depth: repr(message(depth)),
    "copy.deepcopy": lambda depth: copy.deepcopy(message(depth)),
    "pickle": lambda depth: pickle.loads(pickle.dumps(message(depth))),
}


def main() -> None:
    """Print one line for each operation."""
    for name, operation in OPERATIONS.items():
        result = f"succeeds at depth {DEPTHS[-1]}"
        for depth in DEPTHS:
            try:
                operation(depth)
            except Exception as error:
                result = f"fails at depth {depth}: {type(error).__name__}: {str(error)[:80]}"
                break
        print(f"{name:16} {result}")


if __name__ == "__main__":
    main()
