"""Mutants of a module: copies of the source with one fault each, created by rule.

A mutant changes one place of the text and leaves all others unchanged, so that lines keep their
numbers. Annotations, imports, prose (texts with a space in them), log messages and error messages
are not mutated.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import indent
from typing import Any

_Change = tuple[Any, str]
"""A node that has a place in the text, and what stands there instead."""


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file`, on `line` (from 1), in `function` (empty: outside of all), `now` stands
    for `was`, the `nth` time (from 1) that it could there; `source` is the whole module."""

    file: str
    line: int
    function: str
    rule: str
    was: str
    now: str
    nth: int
    source: str

    @property
    def name(self) -> str:
        """A unique name, which does not depend on changes elsewhere in the module."""
        where = f"{self.file}: {self.function}: " if self.function else f"{self.file}: "
        which = f" ({self.nth})" if self.nth > 1 else ""
        return where + " ".join(f"{self.was} → {self.now}".split()) + which


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of a module, in the order of the text."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    data = source.encode()
    before: Counter[tuple[str, str, str]] = Counter()
    for node, function in _places(ast.parse(source), ""):
        for rule, change in RULES.items():
            for at, now in change(node):
                begin = starts[at.lineno - 1] + at.col_offset
                end = starts[at.end_lineno - 1] + at.end_col_offset
                margin = " " * at.col_offset
                text = indent(now, margin).removeprefix(margin).encode()
                changed = (data[:begin] + text + data[end:]).decode()
                was = data[begin:end].decode()
                before[function, was, now] += 1
                nth = before[function, was, now]
                yield Mutant(file, at.lineno, function, rule, was, now, nth, changed)


# -- the rules: each yields the places below a node that it changes, and what stands there then ---

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip

_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


def _comparison(node: ast.AST) -> Iterator[_Change]:
    """Take a bound for within or without, and yes for no."""
    if isinstance(node, ast.Compare):
        first, *rest = node.ops
        if other := _COMPARED.get(type(first)):
            yield node, _text(ast.Compare(node.left, [other(), *rest], node.comparators))


def _boolean(node: ast.AST) -> Iterator[_Change]:
    """Take and for or, and a condition the other way round."""
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, _text(ast.BoolOp(other, node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, _text(node.operand)
    elif isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        yield node.test, _text(ast.UnaryOp(ast.Not(), node.test))


def _constant(node: ast.AST) -> Iterator[_Change]:
    """Take another constant: a word misspelt, a number one higher, yes for no."""
    match node:
        case ast.Constant(value=bool(value)):
            yield node, repr(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield node, repr(value + 1)
        case ast.Constant(value="utf-8" | "utf-16"):
            pass  # Python also accepts `utf-8_` as the name of the encoding
        case ast.Constant(value=str(value)) if value and " " not in value:
            yield node, repr(f"{value}_")
        case ast.Constant(value=bytes(value)) if value:
            yield node, repr(value + b"_")


def _calculation(node: ast.AST) -> Iterator[_Change]:
    """Take minus for plus, and so on."""
    if isinstance(node, ast.BinOp) and (other := _CALCULATED.get(type(node.op))):
        yield node, _text(ast.BinOp(node.left, other(), node.right))
    elif isinstance(node, ast.AugAssign) and (other := _CALCULATED.get(type(node.op))):
        yield node, ast.unparse(ast.AugAssign(node.target, other(), node.value))


def _removed(node: ast.AST) -> Iterator[_Change]:
    """Leave a statement out."""
    match node:
        case ast.Assign() | ast.AugAssign() | ast.Raise() | ast.Delete() | ast.Break():
            yield node, "pass"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Continue():
            yield node, "pass"


def _returned(node: ast.AST) -> Iterator[_Change]:
    """Return nothing at all, except for `False`: conditions treat both alike."""
    if isinstance(node, ast.Return) and node.value and not _is_false(node.value):
        yield node, "return None"


def _is_false(value: ast.expr) -> bool:
    return ast.unparse(value) in ("None", "False")


def _swapped(node: ast.AST) -> Iterator[_Change]:
    """Swap the first two arguments of a call."""
    if isinstance(node, ast.Call) and len(node.args) > 1 and not _in_any_order(node.func):
        first, second, *rest = node.args
        starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
        if not starred and ast.dump(first) != ast.dump(second):
            yield node, _text(ast.Call(node.func, [second, first, *rest], node.keywords))


def _in_any_order(function: ast.expr) -> bool:
    return ast.unparse(function) in ("min", "max", "suppress", "_sum")


def _off_by_one(node: ast.AST) -> Iterator[_Change]:
    """Take one more, or one less, where a place is counted."""
    if isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                yield bound, _text(ast.BinOp(bound, ast.Add(), ast.Constant(1)))
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("len", "range"):
        yield node, _text(ast.BinOp(node, ast.Sub(), ast.Constant(1)))


def _uncaught(node: ast.AST) -> Iterator[_Change]:
    """Catch nothing of what is caught."""
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        yield node.type, "()"


RULES: dict[str, Callable[[ast.AST], Iterator[_Change]]] = {
    rule.__name__[1:]: rule
    for rule in (
        _comparison, _boolean, _constant, _calculation, _removed, _returned, _swapped,
        _off_by_one, _uncaught,
    )
}  # fmt: skip


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


# -- where they apply -----------------------------------------------------------------------------

_LEFT = ("annotation", "returns", "bases", "type_params")


def _places(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes that may be changed, and the function or class that each is in."""
    yield node, function
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    for field, value in ast.iter_fields(node):
        if field not in _LEFT:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_left(child):
                    yield from _places(child, function)


def _is_left(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=ast.Name(id="TypeVar" | "NewType" | "cast")):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="log"))):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name == "__all__" or isinstance(node.value, ast.Subscript)  # alias of a type
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False
