"""Count the core's lines of code: `core_size.py` prints the sum and the largest modules.

A line counts that is not blank and not a comment, a docstring, an import or `__all__`. Beyond
`MOST_CODE` it exits with 1: the core stays small enough to be read.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TypeGuard

CORE = Path(__file__).resolve().parent.parent / "swink_core"

MOST_CODE = 4_931

SHOWN = 5


def lines_of_code(source: str) -> int:
    """Count the lines of a module that say what it does."""
    free = {
        line
        for node in ast.walk(ast.parse(source))
        if _is_free(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    numbered = enumerate(map(str.strip, source.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" for number, line in numbered if number not in free)


def _is_free(node: ast.AST) -> TypeGuard[ast.stmt]:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
    return False


def sizes(folder: Path = CORE) -> dict[str, int]:
    """Return the lines of code of each module below a folder, by its path there."""
    return {
        path.relative_to(folder).as_posix(): lines_of_code(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


def main() -> int:
    """Print the sum and the largest modules; return 1 if that is too much."""
    counted = sizes()
    total = sum(counted.values())
    print(f"the core has {total:,} lines of code, of at most {MOST_CODE:,}; the largest modules:")
    for name in sorted(counted, key=lambda name: counted[name], reverse=True)[:SHOWN]:
        print(f"{counted[name]:6} {name}")
    return int(total > MOST_CODE)


if __name__ == "__main__":
    sys.exit(main())
