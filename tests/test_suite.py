"""The structure of the tests: imports, shared helpers, and rules for every test."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from swink_test_helpers.corpus import corpus_folder

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tests"
OF_DISTRIBUTIONS = sorted(ROOT.glob("plugins/*/tests")) + sorted(ROOT.glob("contrib/*/tests"))

PROVIDERS = {path.name.removeprefix("swink-provider-") for path in (ROOT / "plugins").iterdir()}
NAMES = (PROVIDERS - {"local", "echo", "proxy"}) | {
    "groq", "deepseek", "openrouter", "vertex", "vllm", "grok", "claude", "gpt",
}  # fmt: skip
"""Those that are not also words."""

ON_PURPOSE = {
    "flipped_bits.py": NAMES,  # which parser reads which recordings
    "work_per_read.py": NAMES,  # the gateway's protocols
    "recorded_chat.py": {"groq"},  # a field of its frames
    "test_architecture.py": NAMES,
    "test_corpus.py": {"anthropic"},
    "test_suite.py": NAMES,
    "test_docs_shell.py": NAMES,  # pages of plugins whose lines need what is not here
    "test_docs_dialect.py": {"openai"},  # the dialect of the page is one of its data
    "test_errors_once.py": {"gpt", "openai"},  # a provider that wants a key
    "test_host.py": {"anthropic", "grok", "groq"},  # names that people do take for each other
    "test_moving.py": {"anthropic", "claude", "gpt", "openai"},  # what pages move from
    "test_template.py": {"openai"},  # a kind of the template, named after the wire format
    "test_update_catalog.py": {"deepseek"},  # whom genai-prices has to know
}


def _words(path: Path) -> set[str]:
    """Returns the words of a module's code, its docstrings left out."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    texts = [
        str(value)
        for node in ast.walk(tree)
        if id(node) not in docstrings
        for field in ("value", "id", "attr", "name", "module", "arg")
        if isinstance(value := getattr(node, field, None), str)
    ]
    return {word.lower() for text in texts for word in re.findall(r"[A-Za-z]+", text)}


@pytest.mark.parametrize(
    "path",
    sorted(p for p in HERE.rglob("*.py") if "fixtures" not in p.parts),
    ids=lambda path: path.relative_to(HERE).as_posix(),
)
def test_the_tests_of_the_whole_know_no_provider(path: Path) -> None:
    assert _words(path) & NAMES <= ON_PURPOSE.get(path.name, set())


def _imported(path: Path) -> set[str]:
    """Returns the top modules that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("folder", OF_DISTRIBUTIONS, ids=lambda folder: folder.parent.name)
def test_a_distributions_tests_need_nothing_of_the_repositorys(folder: Path) -> None:
    elsewhere = {path.stem for path in [*HERE.rglob("*.py"), *(ROOT / "tools").glob("*.py")]}
    elsewhere |= {p.stem for other in OF_DISTRIBUTIONS if other != folder for p in other.glob("*")}
    elsewhere -= {path.stem for path in folder.glob("*.py")} | {"conftest"}

    for path in folder.rglob("*.py"):
        assert not _imported(path) & elsewhere, path.name


def test_the_cores_sdist_has_the_tests_that_are_its_own_for_make() -> None:
    packages = {f"/tests/{init.parent.name}" for init in ROOT.glob("swink_core/*/__init__.py")}
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", "")
    [words] = re.findall(r",tests/test_%\.py,([\w\s]+)\)", makefile)
    modules = {f"/tests/test_{word}.py" for word in words.split()}
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shipped = pyproject["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]

    helpers = {"/tests/conftest.py", "/tests/support"}

    assert {p for p in shipped if p.startswith("/tests/")} == packages | modules | helpers


def test_helpers_beside_tests_have_names_of_their_own() -> None:
    """They share one process here, and `import` knows one module by a name."""
    helpers = Counter(
        path.stem
        for folder in [HERE / "support", ROOT / "tools", *OF_DISTRIBUTIONS]
        for path in folder.glob("*.py")
        if not path.stem.startswith("test_") and path.stem != "conftest"
    )
    assert [name for name, count in helpers.items() if count > 1] == []


@pytest.mark.parametrize(
    "folder",
    sorted(path.name for path in corpus_folder().glob("*") if path.is_dir()),
)
def test_recorded_cases_have_a_reader(folder: str) -> None:
    modules = [*HERE.rglob("test_*.py")]
    modules += [path for tests in OF_DISTRIBUTIONS for path in tests.glob("*.py")]
    quoted = f'"{folder}"'
    assert any(quoted in path.read_text("utf-8") for path in modules)


@pytest.mark.parametrize(
    "project", sorted(ROOT.glob("plugins/*/pyproject.toml")), ids=lambda path: path.parent.name
)
def test_each_provider_is_put_through_the_kit_by_the_tests_of_its_own_package(
    project: Path,
) -> None:
    entry_points = tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"]
    module = (project.parent / "tests" / "test_conformance.py").read_text("utf-8")
    named = set(re.findall(r'(?m)^    provider = "(.+)"$', module))
    all_of_them = 'entry_points(group="swink.providers")' in module
    assert all_of_them or named == entry_points["swink.providers"].keys()


def test_every_part_of_the_laboratory_has_a_line_in_its_readme() -> None:
    text = (ROOT / "lab" / "README.md").read_text("utf-8")
    parts = {
        path.name for path in (ROOT / "lab").iterdir() if path.is_dir() or path.suffix == ".py"
    }
    shown = {part for part in parts if f"`{part}`" in text or f"`lab/{part}`" in text}
    assert parts - {"__init__.py", "__pycache__", "tests"} == shown


def test_every_program_in_tools_has_a_line_in_their_readme() -> None:
    folder = ROOT / "tools"
    listed = re.findall(r"(?m)^\| `(\w+\.py)` \|", (folder / "README.md").read_text("utf-8"))
    assert listed == sorted(path.name for path in folder.glob("*.py"))
