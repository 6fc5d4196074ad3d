"""Print how densely each package is written: parallel assignments, splats, walruses and `Any`.

    python -m lab.findings.squeezed_code [FOLDER …]

Figures for a thousand lines of code without imports and docstrings.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _parallel(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    )


def _splats(node: ast.AST) -> int:
    if not isinstance(node, ast.Call):
        return 0
    starred = sum(isinstance(each, ast.Starred) for each in node.args)
    return starred + sum(each.arg is None for each in node.keywords)


def _without_code(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def counted(path: Path) -> Counter[str]:
    """Count the lines of a module, and its dense constructs."""
    source = path.read_text()
    tree = ast.parse(source)
    found: Counter[str] = Counter()
    free: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and _without_code(node):
            free.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        found["parallel"] += _parallel(node)
        found["splats"] += _splats(node)
        found["walrus"] += isinstance(node, ast.NamedExpr)
        found["Any"] += isinstance(node, ast.Name) and node.id == "Any"
    for number, line in enumerate(source.splitlines(), 1):
        code = line.strip()
        found["lines"] += bool(code) and not code.startswith("#") and number not in free
    return found


def main() -> None:
    """Print one line for each package."""
    folders = [Path(each) for each in sys.argv[1:]] or [
        ROOT / "swink_core",
        *sorted(ROOT.glob("contrib/*/src")),
        ROOT / "plugins",
    ]
    print(f"{'package':28} {'lines':>7} {'parallel':>9} {'splats':>7} {'walrus':>7} {'Any':>6}")
    for folder in folders:
        total: Counter[str] = Counter()
        for path in folder.rglob("*.py"):
            total.update(counted(path))
        name = folder.parent.name if folder.name == "src" else folder.name
        rates = [1000 * total[key] / max(1, total["lines"]) for key in ("parallel", "splats")]
        more = [1000 * total[key] / max(1, total["lines"]) for key in ("walrus", "Any")]
        shown = f"{rates[0]:9.1f} {rates[1]:7.1f} {more[0]:7.1f} {more[1]:6.1f}"
        print(f"{name:28} {total['lines']:7,} {shown}")


if __name__ == "__main__":
    main()
