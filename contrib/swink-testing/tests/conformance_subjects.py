"""Providers of the fixture package, as the kit examines them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from swink_core import Host
from swink_testing.conformance import Subject

__all__ = ["FIXTURES", "subject_of"]

FIXTURES = Path(__file__).parent / "fixtures" / "conformance"


def subject_of(
    name: str = "sound",
    where: str = "Sound",
    load: Callable[[], Any] | None = None,
    **more: Any,
) -> Subject:
    """Return a provider; `where` is `module:Class`, or a class of the package."""
    module, colon, cls = where.rpartition(":")
    value = f"sound_provider{'.' * bool(colon)}{module}:{cls}"
    point = EntryPoint(name, value, "swink.providers")
    entry = SimpleNamespace(
        name=name,
        group=point.group,
        value=value,
        load=load or point.load,
        dist=SimpleNamespace(name="sound-provider", version="1.0"),
    )
    return Subject(name, Host(entry_points=[entry], environ={}), **more)
