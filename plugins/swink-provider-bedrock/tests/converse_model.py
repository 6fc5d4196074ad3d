"""Check requests against AWS's model of the Converse API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

__all__ = ["OLDEST_JUDGE", "misfits"]

OLDEST_JUDGE = "1.44"
"""The botocore that describes all that is sent; one that only signs may be older."""


def misfits(body: dict[str, Any]) -> list[str]:
    """Name what of a request's body does not fit the API: names, types, words, limits."""
    params = {"modelId": "any", **body}
    pytest.importorskip("botocore", OLDEST_JUDGE)
    from botocore import validate

    report = validate.ParamValidator().validate(params, _request())
    found = [report.generate_report()] if report.has_errors() else []
    return found or list(_wrong(params, _request(), "request"))


@cache
def _request() -> Any:
    session = pytest.importorskip("botocore.session")
    model = session.Session().get_service_model("bedrock-runtime")
    return model.operation_model("ConverseStream").input_shape


def _wrong(value: Any, shape: Any, where: str) -> Iterator[str]:
    """Check enumerations, patterns, lengths and unions, which botocore does not validate."""
    metadata = shape.metadata
    if isinstance(value, str):
        if metadata.get("enum") and value not in metadata["enum"]:
            yield f"{where}: {value!r} is not one of {metadata['enum']}"
        if "pattern" in metadata and not re.fullmatch(metadata["pattern"], value):
            yield f"{where}: {value!r} does not match {metadata['pattern']}"
        if not metadata.get("min", 0) <= len(value) <= metadata.get("max", 10**9):
            yield f"{where}: {value!r} is too short or too long"
    elif shape.type_name == "list":
        for index, item in enumerate(value):
            yield from _wrong(item, shape.member, f"{where}[{index}]")
    elif shape.type_name == "structure" and not getattr(shape, "is_document_type", False):
        if getattr(shape, "is_tagged_union", False) and len(value) != 1:
            yield f"{where}: of {sorted(value)} only one may be set"
        for name, item in value.items():
            yield from _wrong(item, shape.members[name], f"{where}.{name}")
