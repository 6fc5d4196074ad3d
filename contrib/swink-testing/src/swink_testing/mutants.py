"""Mutants of a provider: generated copies with one fault each, which the checks should detect.

    for mutant in mutants_of("acme_provider.plugin"):
        with mutant.installed():
            print(mutant.name, killed_by(Subject.find("acme")))

A mutant is a module whose source is changed in one place. While the mutant is installed, imports of
the package load the mutant and the package's other, unchanged modules. The name of a mutant
consists of the function, the rule and a number. It does not contain a line number, so that a list
of names stays valid after most changes. `place` contains the file and the line of the change.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attrs import define, field

from swink_testing.conformance import PROVIDER_CHECKS, Check, Subject, run_check

__all__ = [
    "MUTANT_CHECKS",
    "RULES",
    "Mutant",
    "edited",
    "killed_by",
    "modules_of",
    "mutants_of",
    "would_find",
]

SECONDS = 20.0
"""Seconds that one check of a mutant may take, because a mutant may hang."""

_FIRST = (
    "expected_messages", "answers_are_read", "recorded_requests", "errors", "listed_requests",
    "credentials", "further_requests",
)  # fmt: skip
"""Quick checks that find most mutants."""

_LEFT_OUT = ("imports_are_light", "provider_info", "catalogue", "large_input")
"""Checks of the package itself, and slow checks. They are not run on mutants."""

MUTANT_CHECKS = sorted(
    (check for check in PROVIDER_CHECKS if check.name not in _LEFT_OUT),
    key=lambda check: check.name not in _FIRST,
)
"""The checks that are run on mutants. Those that detect most mutants come first."""


@define(frozen=True)
class Mutant:
    """A module with one fault; `name` is `module.function rule number`.

    `place` is the file and the line of the fault.
    """

    name: str
    module: str
    source: str = field(repr=False)
    place: str = ""

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Make imports of the package load the mutant, and restore the original afterwards."""
        package = self.module.partition(".")[0]
        own = [name for name in sys.modules if name.partition(".")[0] == package]
        before = {name: sys.modules.pop(name) for name in own}
        finder = _Finder(self.module, self.source)
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            for name in [name for name in sys.modules if name.partition(".")[0] == package]:
                del sys.modules[name]
            sys.modules.update(before)


def mutants_of(module: str) -> Iterator[Mutant]:
    """Yield all mutants of a module, in order."""
    file = _file(module)
    tree = ast.parse(file.read_text("utf-8"))
    copy = deepcopy(tree)
    counts: dict[tuple[str, str], int] = {}
    line = 1
    for path, where in _places(tree, (), module):
        line = getattr(_at(tree, path), "lineno", line)
        for rule, change in RULES.items():
            if rule == "renamed" and not (where == module or where.endswith(".classify")):
                continue
            if change(_at(copy, path)):
                number = counts[where, rule] = counts.get((where, rule), 0) + 1
                name = f"{where} {rule} {number}"
                source = ast.unparse(ast.fix_missing_locations(copy))
                yield Mutant(name, module, source, f"{file}:{line}")
                copy = deepcopy(tree)


def modules_of(package: str) -> list[str]:
    """Return the sorted names of a package's modules; only the package itself is imported."""
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    found = [file.relative_to(folder) for folder in folders for file in folder.rglob("*.py")]
    names = [".".join((package, *file.with_suffix("").parts)) for file in found]
    return sorted(name.removesuffix(".__init__") for name in names) or [package]


_FINDERS = (
    (("parser", "feed", "buffered", "on_"), "a recording of an answer that has it, or a row of "
     "answers.jsonl"),
    (("convert", "request", "url", "knob", "notices", "fit", "message", "block", "user",
      "assistant", "tool"), "a recording of a call that asks for it, or a row of requests.jsonl"),
    (("classify", "error"), "a recording of a refused call, or a row of errors.jsonl"),
    (("exchange", "abandon"), "a recording of a call that makes this request, or one that is left"),
    (("sign",), "a row of requests.jsonl with the headers that the API's documentation states"),
    (("credential", "fetch", "grant", "token"), "a recording of a call that fetches a token"),
)  # fmt: skip
"""Maps words in a function's name to a recording or row that would reveal the function's fault."""


def would_find(mutant: Mutant) -> str:
    """Describe which recording or row to add so that the checks detect a mutant."""
    place = mutant.name.partition(" ")[0].removeprefix(mutant.module).lower()
    for words, what in _FINDERS:
        if any(word in place for word in words):
            return what
    return "a recording or a row in which it makes a difference"


def edited(name: str, module: str, was: str, now: str) -> Mutant:
    """Return a handwritten mutant, in which `now` replaces `was`.

    Raises ValueError unless the module contains `was` exactly once.
    """
    file = _file(module)
    source = file.read_text("utf-8")
    if (times := source.count(was)) != 1:
        raise ValueError(f"{name}: {module} has {was!r} {times} times, and not once")
    line = source[: source.index(was)].count("\n") + 1
    return Mutant(f"{module}: {name}", module, source.replace(was, now), f"{file}:{line}")


def killed_by(subject: Subject, checks: Sequence[Check[Subject]] = MUTANT_CHECKS) -> str | None:
    """Return the name of the first check that a provider fails; `None` if it passes all checks."""
    for check in checks:
        if run_check(check, subject, subject.waivers, SECONDS).is_fault:
            return check.name
    return None


# -- the rules: each changes a node in place, or says that it does not apply ----------------------


def _truth(node: ast.AST) -> bool:
    """Replace `x is not None` with `x`, so that 0, False and the empty string are lost."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.IsNot):
            setattr(node, name, value.left)
            return True
    if isinstance(node, ast.comprehension):
        for place, value in enumerate(node.ifs):
            if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.IsNot):
                node.ifs[place] = value.left
                return True
    return False


def _negated(node: ast.AST) -> bool:
    """Negate a condition."""
    if isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return True
    return False


def _unsaid(node: ast.AST) -> bool:
    """Remove a call whose result is not used."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        node.value = ast.Constant(None)
        return True
    return False


def _keyless(node: ast.AST) -> bool:
    """Remove the last entry of a dictionary, if its key is a constant."""
    if isinstance(node, ast.Dict) and node.keys and isinstance(node.keys[-1], ast.Constant):
        del node.keys[-1], node.values[-1]
        return True
    return False


def _renamed(node: ast.AST) -> bool:
    """Misspell the first key of a dictionary, such as the name of a field of the API."""
    match node:
        case ast.Dict(keys=[ast.Constant(value=str(name)), *_]):
            node.keys[0] = ast.Constant(f"{name}_")
            return True
    return False


def _nothing(node: ast.AST) -> bool:
    """Make a function return `None` instead of a value."""
    if isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant | None):
        node.value = ast.Constant(None)
        return True
    return False


def _shortened(node: ast.AST) -> bool:
    """Remove the last argument of a call that has several."""
    if isinstance(node, ast.Call) and len(node.args) > 1 and not node.keywords:
        del node.args[-1]
        return True
    return False


def _deaf(node: ast.AST) -> bool:
    """Empty the body of a `case`."""
    if isinstance(node, ast.match_case) and not isinstance(node.body[0], ast.Pass):
        node.body = [ast.Pass()]
        return True
    return False


RULES: dict[str, Callable[[ast.AST], bool]] = {
    function.__name__[1:]: function
    for function in (
        _truth, _negated, _unsaid, _keyless, _renamed, _nothing, _shortened, _deaf,
    )
}  # fmt: skip
"""The rules by name. Each makes a syntax node faulty, if it applies to the node."""


# -- where they apply ----------------------------------------------------------------------------

_Path = tuple[tuple[str, int | None], ...]


def _places(node: ast.AST, path: _Path, where: str) -> Iterator[tuple[_Path, str]]:
    """Yield the path to every node of a syntax tree, and the name of the enclosing function."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}"
    yield path, where
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns", "bases"):
            continue
        if isinstance(value, ast.AST):
            yield from _places(value, (*path, (name, None)), where)
        elif isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _places(item, (*path, (name, place)), where)


def _file(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    return Path(spec.origin)


def _at(tree: ast.AST, path: _Path) -> ast.AST:
    node: Any = tree
    for name, place in path:
        node = getattr(node, name)
        if place is not None:
            node = node[place]
    assert isinstance(node, ast.AST)
    return node


class _Loader(SourceFileLoader):
    source = ""

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, module: str, source: str) -> None:
        self._module, self._source = module, source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        found = PathFinder.find_spec(fullname, path)
        assert found is not None, fullname
        assert found.origin is not None, fullname
        loader = _Loader(fullname, found.origin)
        loader.source = self._source
        where = found.submodule_search_locations
        return spec_from_file_location(
            fullname, found.origin, loader=loader, submodule_search_locations=where
        )
