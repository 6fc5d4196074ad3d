"""The house: who may import whom, what nobody may know, and what start-up may cost."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import swink_core

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "swink_core"

ORDER = [
    "outcome", "framing.frame", "framing.sse", "framing.ndjson", "framing", "messages", "model",
    "errors", "events", "protocol", "advice", "clock", "writer", "builder", "codec",
    "relay", "conversion", "hookspecs", "classification", "call", "level", "catalog", "host",
    "http", "source", "whole", "api",
    "provider", "watchdog", "circuit", "retry", "faults", "run", "event_stream", "client",
]  # fmt: skip
"""Each module imports only from those before it."""

SANS_IO = [
    "outcome", "framing.frame", "framing.sse", "framing.ndjson", "messages", "model", "errors",
    "events", "protocol", "advice", "writer", "builder", "codec", "relay", "conversion",
]  # fmt: skip
NO_IO = {"aiohttp", "asyncio", "logging", "socket", "ssl", "subprocess", "threading", "time"}

LONG = 400
"""Lines beyond which a module has a seam somewhere."""


def _path(module: str) -> Path:
    path = CORE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _imports(path: Path, lazy: bool = True) -> Iterator[str]:
    """Yields what a module imports, but for `TYPE_CHECKING` and, unless `lazy`, in functions."""
    pending: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if not lazy and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}:{alias.name}" for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))


def _core_module(imported: str) -> str | None:
    """Returns which core module an import statement needs."""
    module, _, name = imported.partition(":")
    if module == "swink_core":
        return name
    return module.removeprefix("swink_core.") if module.startswith("swink_core.") else None


def test_the_order_names_every_module_of_the_core() -> None:
    found = {
        ".".join(path.relative_to(CORE).with_suffix("").parts).removesuffix(".__init__")
        for path in CORE.rglob("*.py")
        if "testing" not in path.parts and path != CORE / "__init__.py"
    }
    assert found == set(ORDER)


@pytest.mark.parametrize("module", ORDER)
def test_a_module_imports_only_from_those_above_it(module: str) -> None:
    allowed = set(ORDER[: ORDER.index(module)])
    needed = {name for i in _imports(_path(module)) if (name := _core_module(i)) is not None}
    assert needed <= allowed


@pytest.mark.parametrize("module", SANS_IO)
def test_the_sans_io_half_sees_no_socket_clock_or_log(module: str) -> None:
    seen = {name.partition(":")[0].partition(".")[0] for name in _imports(_path(module))}
    assert not seen & NO_IO


PROVIDERS = sorted(
    {path.name.removeprefix("swink-provider-") for path in (ROOT / "plugins").iterdir()}
    | {"groq", "together", "deepseek", "openrouter", "vertex", "vllm", "grok", "claude", "gpt"}
)
COMMON_WORDS = {"local", "echo", "proxy"}
"""Providers whose names are also words."""


def _code_words(path: Path) -> set[str]:
    """Returns the words of names and strings, docstrings and comments left out."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.value)
        for owner in ast.walk(tree)
        if isinstance(owner, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for node in owner.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings:
                texts.append(node.value)
        elif isinstance(node, ast.Name):
            texts.append(node.id)
        elif isinstance(node, ast.Attribute):
            texts.append(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            texts.append(node.name)
    return {word.lower() for text in texts for word in re.findall(r"[A-Za-z]+", text)}


@pytest.mark.parametrize("module", ORDER)
def test_the_core_names_no_provider(module: str) -> None:
    named = _code_words(_path(module)) & (set(PROVIDERS) - COMMON_WORDS)
    assert named == set()


OUTSIDE = sorted(
    path
    for folder in ("plugins", "contrib")
    for path in (ROOT / folder).glob("*/src/**/*.py")
    if "template" not in path.parts
)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: "/".join(path.parts[-2:]))
def test_plugins_use_public_names_only(path: Path) -> None:
    public = {*swink_core.__all__, "", "testing"}
    private = []
    for imported in _imports(path):
        module, _, name = imported.partition(":")
        inner = module.startswith("swink_core.") and not module.startswith("swink_core.testing")
        if inner or (module == "swink_core" and name not in public):
            private.append(imported)
    assert private == []


def test_public_names_exist_and_are_named_once() -> None:
    assert len(swink_core.__all__) == len(set(swink_core.__all__))
    assert [name for name in swink_core.__all__ if not hasattr(swink_core, name)] == []


@pytest.mark.parametrize(
    "path",
    sorted({*CORE.rglob("*.py"), *OUTSIDE}),
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_a_module_fits_in_a_readers_head(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= LONG


def _loaded_by(statement: str, *, path: Path | None = None) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    prefix = f"import sys; sys.path.insert(0, {str(path)!r})\n" if path else ""
    done = subprocess.run(
        [sys.executable, "-c", prefix + code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_core_imports_neither_transport_nor_codec_nor_any_plugin() -> None:
    loaded = _loaded_by("import swink_core")
    assert not loaded & {"aiohttp", "cattrs", "backoff", "rich", "click"}
    assert not {name for name in loaded if name.startswith("swink_provider")}


def _install(folder: Path, name: str, body: str, group: str = "swink.providers") -> None:
    (folder / f"{name}_module.py").write_text(body)
    info = folder / f"fake_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {name}_module:Provider\n")


GOOD = "class Provider:\n    def __init__(self, name):\n        self.name = name\n"


def test_twenty_installed_plugins_cost_no_import(tmp_path: Path) -> None:
    for number in range(20):
        _install(tmp_path, f"fake{number}", GOOD)
    loaded = _loaded_by(
        "import swink_core\n"
        "host = swink_core.Host()\n"
        "assert len([n for n in host.provider_names() if n.startswith('fake')]) == 20\n"
        "host.bind('fake7')",
        path=tmp_path,
    )
    assert {name for name in loaded if name.startswith("fake")} == {"fake7_module"}


def test_a_broken_plugin_breaks_nothing_until_it_is_addressed(tmp_path: Path) -> None:
    _install(tmp_path, "broken", "raise RuntimeError('no such luck')")
    _install(tmp_path, "fine", GOOD)
    program = (
        "import swink_core\n"
        "host = swink_core.Host()\n"
        "host.bind('fine')\n"
        "try:\n"
        "    host.bind('broken')\n"
        "except swink_core.PluginError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "broken" in done.stdout
    assert "fake-broken 1.0" in done.stdout
    assert "no such luck" in done.stdout
