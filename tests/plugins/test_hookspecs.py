"""The four hooks: their names and arguments are what every plugin is written against."""

from __future__ import annotations

import inspect

import pluggy
import pytest

from swink_core import hookimpl
from swink_core.plugins import hookspecs

# (hook, its arguments, whether the first answer is the answer)
HOOKS = [
    ("stream", ["model", "context", "options", "call"], True),
    ("convert_messages", ["model", "context", "options"], True),
    ("classify_error", ["model", "failure"], True),
    ("on_event", ["event", "call"], False),
]


@pytest.mark.parametrize(("name", "arguments", "first"), HOOKS)
def test_a_hook_keeps_its_arguments_and_its_kind(
    name: str, arguments: list[str], first: bool
) -> None:
    hook = getattr(hookspecs, name)
    assert list(inspect.signature(hook).parameters) == arguments
    assert hook.swink_spec["firstresult"] is first
    assert hook.swink_spec["historic"] is False  # it would keep every token for ever
    assert inspect.getdoc(hook)


def test_there_are_four_hooks_under_one_project_name() -> None:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    assert sorted(vars(manager.hook)) == sorted(name for name, _, _ in HOOKS)


def test_the_public_decorator_marks_hooks_of_this_project() -> None:
    @hookimpl
    def on_event() -> None: ...

    assert hasattr(on_event, f"{hookspecs.PROJECT}_impl")
