"""The lists that `make mutants` reads name what exists; the command itself takes half an hour."""

from __future__ import annotations

import ast
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import msgspec

from lab.mutants.providers import EQUIVALENT


def defined(name: str) -> bool:
    """Return whether a module defines the classes and functions of a dotted name."""
    module, rest = name, list[str]()
    while (spec := _spec(module)) is None:
        module, _, last = module.rpartition(".")
        rest.append(last)
    assert spec.origin
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {*rest} <= {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def _spec(module: str) -> ModuleSpec | None:
    try:
        return find_spec(module)
    except ModuleNotFoundError:  # of what is no package
        return None


def test_every_mutant_that_is_listed_as_equivalent_is_of_a_function_that_exists() -> None:
    listed = msgspec.toml.decode(EQUIVALENT.read_bytes(), type=dict[str, str])
    # of the template and of the sound provider, which are no installed packages
    apart = ("swink_provider_acme.", "sound_provider:", "sound_provider.")
    names = [name.split(" ")[0] for name in listed if not name.startswith(apart)]
    assert names
    assert [name for name in names if not defined(name)] == []


def test_a_function_that_is_gone_is_not_defined() -> None:
    assert defined("swink_provider_openai.promises.refuse_idle_overrides")
    assert not defined("swink_provider_openai.promises.headers_of")
