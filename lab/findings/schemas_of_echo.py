"""Print for which types of a field `echo` makes up an answer that fits.

    python -m lab.findings.schemas_of_echo

A typed answer of `echo` is the first thing that people try.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import uuid
from typing import Annotated, Any, Literal

from pydantic import Field, HttpUrl, create_model

import swink
from lab.findings.gateways import verdict


class Side(enum.Enum):
    """An enumeration."""

    LEFT = "left"
    RIGHT = "right"


TYPES: dict[str, Any] = {
    "date": datetime.date,
    "datetime": datetime.datetime,
    "time": datetime.time,
    "timedelta": datetime.timedelta,
    "UUID": uuid.UUID,
    "Decimal": decimal.Decimal,
    "pattern": Annotated[str, Field(pattern=r"^\d{5}$")],
    "0 to 1": Annotated[float, Field(ge=0, le=1)],
    "above 0": Annotated[int, Field(gt=0)],
    "multiple of 5": Annotated[int, Field(multiple_of=5)],
    "at least 30 characters": Annotated[str, Field(min_length=30)],
    "at most 3 characters": Annotated[str, Field(max_length=3)],
    "at least 3 items": Annotated[list[int], Field(min_length=3)],
    "URL": HttpUrl,
    "set": set[str],
    "tuple": tuple[int, str],
    "dict": dict[str, int],
    "Any": Any,
    "optional": int | None,
    "union": int | str,
    "enumeration": Side,
    "literal": Literal["x", "y"],
    "bool": bool,
    "bytes": bytes,
    "path": pathlib.Path,
}


def main() -> None:
    """Print one line for each type, and how many fit."""
    fits = 0
    with swink.SyncClient() as client:
        for name, type in TYPES.items():
            model: Any = create_model("Record", value=(type, ...))
            try:
                answer = client.answer("echo/echo", "hello there", type=model)
                seen = repr(answer.parsed.value)
                right = True
            except swink.SwinkError as error:
                seen = f"{error.__class__.__name__}: {' '.join(str(error).split())[:90]}"
                right = False
            fits += right
            verdict(right, f"{name}: {seen}")
    print(f"{fits} of {len(TYPES)} types fit")


if __name__ == "__main__":
    main()
