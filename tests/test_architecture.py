"""The architecture: allowed imports, forbidden knowledge, and the cost of start-up."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import swink
import swink_core
import swink_core.providers

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "swink_core"

PACKAGES = ("framing", "vocabulary", "failures", "plugins", "providers", "streaming")
ORDER = (*PACKAGES, "arguments", "conversation", "client")
"""Each package, and the two modules above them, imports only from those before it."""

SANS_IO = ("framing", "vocabulary", "failures")
NO_IO = {"aiohttp", "asyncio", "logging", "os", "socket", "ssl", "subprocess", "threading", "time"}

MOST_NAMES = 99

MOST_NAMES_FOR_AUTHORS = 86

MODULES = sorted(path for path in CORE.rglob("*.py") if path != CORE / "__init__.py")


def _name(path: Path) -> str:
    return ".".join(path.relative_to(CORE).with_suffix("").parts).removesuffix(".__init__")


BY_NAME = {_name(path): path for path in MODULES}


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Return the imports of a module, anywhere in it and for type checkers too."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += (f"{module}:{alias.name}" for alias in node.names)
    return tuple(found)


def _needed(path: Path) -> set[str]:
    """Return the modules of the core that a module needs."""
    needed = set()
    for imported in _imports(path):
        module, _, name = imported.partition(":")
        if module.partition(".")[0] == "swink_core":
            inner = ".".join(part for part in (*module.split(".")[1:], name) if part)
            needed.add(inner if inner in BY_NAME else inner.rpartition(".")[0])
    return needed


def test_the_core_has_these_packages_and_says_so_in_their_order() -> None:
    assert {name.partition(".")[0] for name in BY_NAME} == set(ORDER)
    docstring = ast.get_docstring(ast.parse((CORE / "__init__.py").read_text("utf-8"))) or ""
    assert re.findall(r"(?m)^    (\w+)/", docstring) == list(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_in_one_sentence_what_belongs_there(package: str) -> None:
    docstring = ast.get_docstring(ast.parse(BY_NAME[package].read_text("utf-8"))) or ""
    assert docstring.count("\n") == 0
    assert docstring.endswith(".")


def test_a_package_imports_only_from_those_above_it() -> None:
    wrong = {}
    for module, path in BY_NAME.items():
        allowed = set(ORDER[: ORDER.index(module.partition(".")[0]) + 1])
        wrong[module] = {name.partition(".")[0] for name in _needed(path)} - allowed
    assert _told(wrong) == {}


def _told(wrong: Mapping[Any, Collection[str]]) -> dict[Any, Collection[str]]:
    """Return the facts to report, by module."""
    assert wrong
    return {module: found for module, found in wrong.items() if found}


def test_no_modules_need_each_other() -> None:
    arrows = {name: _needed(path) - {name} for name, path in BY_NAME.items()}
    # an `__init__` gathers its package's names, and nobody inside the package asks it for them
    settled = {name for name, path in BY_NAME.items() if path.name == "__init__.py"}
    assert _unsettled(arrows, settled) == set()


def _unsettled(arrows: Mapping[str, Collection[str]], settled: Collection[str] = ()) -> set[str]:
    """Return the modules that need each other, and those that need such."""
    left = {name for name in arrows if name not in settled}
    while free := {name for name in left if left.isdisjoint(arrows[name])}:
        left -= free
    return left


DISTRIBUTIONS = {
    path.parent.name: path.parent
    for group in ("contrib", "plugins")
    for path in sorted(ROOT.glob(f"{group}/*/src/*/__init__.py"))
}


@cache
def _arrows(package: str) -> Mapping[str, set[str]]:
    """Return the modules of a distribution's package, each with those of them that it imports."""
    home = DISTRIBUTIONS[package]
    modules = {
        ".".join(path.relative_to(home.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in home.rglob("*.py")
    }
    arrows = {}
    for name, path in modules.items():
        named = {imported.replace(":", ".") for imported in _imports(path)}
        needed = {each if each in modules else each.rpartition(".")[0] for each in named}
        arrows[name] = (needed & modules.keys()) - {name}
    return arrows


@pytest.mark.parametrize("package", sorted(DISTRIBUTIONS))
def test_no_modules_of_a_distribution_need_each_other(package: str) -> None:
    assert _unsettled(_arrows(package)) == set()


LAYERS: dict[str, tuple[frozenset[str], ...]] = {
    "swink_cli": (
        # what a person reads and writes: no settings, no client
        frozenset(
            {
                "display",
                "exits",
                "extensions",
                "extraction",
                "files",
                "listing",
                "live_markdown",
                "markdown",
                "markdown_tokens",
                "pairs",
                "schemas",
                "summary",
                "terminal",
                "troubles",
                "wrapping",
            }
        ),
        # what commands share: settings, keys, options, calls
        frozenset(
            {
                "calling",
                "clients",
                "completion",
                "key_file",
                "keys",
                "mcp_servers",
                "memory",
                "model_choice",
                "options",
                "prompts",
                "settings",
                "templates",
                "tool_loop",
                "tools",
                "understood",
            }
        ),
        frozenset({"__main__", "commands", "main"}),
    ),
    "swink_gateway": (
        frozenset({"protocols"}),
        frozenset({"policy"}),
        frozenset({"serving"}),
        frozenset({"commands"}),
    ),
}
"""Packages and modules of a distribution, from the lowest layer up."""


@pytest.mark.parametrize("package", sorted(LAYERS))
def test_a_layer_of_a_distribution_imports_only_from_itself_and_those_below(package: str) -> None:
    height = {part: number for number, layer in enumerate(LAYERS[package]) for part in layer}
    height[""] = -1  # the package itself holds nothing

    def part(module: str) -> str:
        return module.partition(".")[2].partition(".")[0]

    arrows = _arrows(package)
    assert {part(module) for module in arrows} == height.keys()
    upwards = {
        module: {other for other in needed if height[part(other)] > height[part(module)]}
        for module, needed in arrows.items()
    }
    assert _told(upwards) == {}


def test_the_protocols_of_the_gateway_are_sans_io() -> None:
    protocols = DISTRIBUTIONS["swink_gateway"] / "protocols"
    seen = {
        path: {name.partition(":")[0].partition(".")[0] for name in _imports(path)}
        for path in sorted(protocols.rglob("*.py"))
    }
    assert _told({path: imported & NO_IO for path, imported in seen.items()}) == {}


def test_no_package_is_called_like_a_public_name() -> None:
    assert not {*swink_core.__all__} & {*ORDER}


def test_the_sans_io_packages_see_no_socket_clock_or_log() -> None:
    seen = {
        module: {name.partition(":")[0].partition(".")[0] for name in _imports(path)}
        for module, path in BY_NAME.items()
        if module.partition(".")[0] in SANS_IO
    }
    assert _told({module: imported & NO_IO for module, imported in seen.items()}) == {}


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


def test_the_core_names_no_provider() -> None:
    providers = set(PROVIDERS) - COMMON_WORDS
    assert _told({module: _code_words(path) & providers for module, path in BY_NAME.items()}) == {}


_FILE_OF_THE_DOCS = re.compile(r"(?<![\w./])docs/[a-z-]+/[a-z-]+\.md")

FOR_A_PAGE = {ROOT / "contrib/swink-gateway/src/swink_gateway/protocols/table.py"}
"""Modules whose data is written into a page."""


def _texts(path: Path) -> Iterator[str]:
    """Yield all strings of a module except its docstring."""
    tree = ast.parse(path.read_text("utf-8"))
    first = tree.body[0] if tree.body else None
    own = first.value if isinstance(first, ast.Expr) else None
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node is not own:
            yield node.value


def test_no_message_and_no_help_names_a_file_that_a_wheel_lacks() -> None:
    modules = {*MODULES, *OUTSIDE} - FOR_A_PAGE
    named = {path: _FILE_OF_THE_DOCS.findall("\n".join(_texts(path))) for path in modules}
    assert _told(named) == {}


OUTSIDE = sorted(
    path
    for folder in ("plugins", "contrib")
    for path in (ROOT / folder).glob("*/src/**/*.py")
    if "template" not in path.parts
)


CLI = ROOT / "contrib" / "swink-cli" / "src" / "swink_cli"

RELEASED_WITH_THE_CORE = "swink_testing"
"""The one distribution that may import the core's modules."""


def test_plugins_use_public_names_only() -> None:
    public = {
        "swink_core": {*swink_core.__all__, "", "providers"},
        "swink_core.providers": {*swink_core.providers.__all__},
    }
    private: dict[Path, list[str]] = {}
    for path in OUTSIDE:
        if RELEASED_WITH_THE_CORE in path.parts:
            continue
        private[path] = []
        for imported in _imports(path):
            module, _, name = imported.partition(":")
            if module.partition(".")[0] == "swink_core" and name not in public.get(module, ()):
                private[path].append(imported)
    assert _told(private) == {}


def test_the_public_names_are_those_that_are_listed() -> None:
    """A name is added to the list by hand, by a change that says who needs it."""
    listed = (ROOT / "tests" / "public_names.txt").read_text("utf-8").split()
    exported = {
        f"{package.__name__}.{name}"
        for package in (swink, swink_core, swink_core.providers)
        for name in package.__all__
    }
    assert listed == sorted(listed)
    assert exported == set(listed)


@pytest.mark.parametrize("package", [swink_core, swink_core.providers], ids=lambda p: p.__name__)
def test_public_names_exist_and_are_named_once(package: ModuleType) -> None:
    assert len(package.__all__) == len(set(package.__all__))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_callers_observers_and_wrappers_find_their_names_among_few() -> None:
    assert len(swink_core.__all__) <= MOST_NAMES
    assert not set(swink_core.__all__) & set(swink_core.providers.__all__)


def test_authors_of_plugins_find_their_names_among_few() -> None:
    assert len(swink_core.providers.__all__) <= MOST_NAMES_FOR_AUTHORS


MECHANISMS = {
    "aiohttp": {
        "providers.aiohttp_client", "providers.aiohttp_insides", "providers.downloads",
        "providers.network",
        "swink_gateway", "swink_observers", "swink_provider_openai", "swink_transport_httptools",
    },
    "aiohttp_sse_client2": {"swink_observers"},
    "backoff": {"streaming.retries", "swink_batch"},
    "cattrs": {"swink", "swink_gateway"},
    "httptools": {"swink_transport_httptools"},
    "importlib_metadata": {"plugins.installed"},
    "pluggy": {"plugins.binding", "plugins.hookspecs", "plugins.host"},
    # reads the addresses that aiohttp requests as aiohttp does
    "yarl": {"providers.downloads", "swink_observers", "swink_transport_httptools"},
}  # fmt: skip
"""Modules of the core, and packages of other distributions, that may import a dependency.

An adapter streams through the core's client, waits as the core does and reads wire formats with
msgspec: a second way to do the same needs a row here, and a reason.
"""

ANYWHERE = {"attrs", "msgspec", "typing_extensions"}


def _third_party(path: Path) -> set[str]:
    """Return the packages that a module imports and this repository does not hold."""
    imported = {name.partition(":")[0].partition(".")[0] for name in _imports(path)}
    return imported - _packages() - sys.stdlib_module_names - {"swink_core"}


def test_the_core_imports_no_dependency_without_a_row() -> None:
    known = MECHANISMS.keys() | ANYWHERE
    assert _told({module: _third_party(path) - known for module, path in BY_NAME.items()}) == {}


def test_a_dependency_is_imported_only_where_its_row_says() -> None:
    users: dict[str, set[str]] = {name: set() for name in MECHANISMS}
    for path in (*MODULES, *OUTSIDE):
        parts = path.relative_to(ROOT).parts
        user = _name(path) if parts[0] == CORE.name else parts[3]
        for name in _third_party(path) & users.keys():
            users[name].add(user)
    assert users == MECHANISMS


IN_TASKS_OF_THEIR_OWN = {"swink_cli", "swink_gateway", "swink_testing"}
"""Packages of programs: no caller can have cancelled the tasks whose time they limit."""


def test_code_that_runs_in_a_callers_task_does_not_use_asyncio_timeout() -> None:
    users = {
        path
        for path in (*MODULES, *OUTSIDE)
        if "asyncio.timeout(" in path.read_text("utf-8")
        and not IN_TASKS_OF_THEIR_OWN & set(path.parts)
    }
    assert users == {BY_NAME["plugins.time_limits"]}


def test_imports_are_absolute() -> None:
    """A relative import would hide from the tests of the layers."""
    relative = [
        path
        for path in (*MODULES, *OUTSIDE)
        if any(name.startswith(".") for name in _imports(path))
    ]
    assert relative == []


FOR_TESTS = {"swink_judge", "swink_test_helpers", "swink_testing"}


def test_nothing_at_run_time_needs_the_packages_for_tests() -> None:
    needing = {
        path: {name.partition(":")[0].partition(".")[0] for name in _imports(path)} & FOR_TESTS
        for path in (*MODULES, *OUTSIDE)
        if FOR_TESTS.isdisjoint(path.parts)
    }
    assert _told(needing) == {}


def test_the_judge_imports_neither_the_kit_nor_this_repositorys_helpers() -> None:
    judge = [path for path in OUTSIDE if "swink_judge" in path.parts]
    others = {
        path: {name.partition(":")[0].partition(".")[0] for name in _imports(path)}
        & (FOR_TESTS - {"swink_judge"})
        for path in judge
    }
    assert _told(others) == {}


def test_importing_the_judge_loads_neither_the_core_nor_the_transport() -> None:
    assert not _loaded_by("import swink_judge") & {"swink_core", "swink_recorder", "aiohttp"}


UNRELEASED = {"lab", "swink_test_helpers"}


def test_no_released_package_imports_what_is_not_released() -> None:
    importing = {
        path: {name.partition(":")[0].partition(".")[0] for name in _imports(path)} & UNRELEASED
        for path in (*MODULES, *OUTSIDE)
    }
    assert _told(importing) == {}


@cache
def _packages() -> frozenset[str]:
    """Return the packages of all distributions but the core."""
    return frozenset(
        one.name for top in ("contrib", "plugins") for one in ROOT.glob(f"{top}/*/src/*")
    )


def _taken_from_others(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the modules of other distributions, the core left out, and the names taken of each."""
    for imported in _imports(path):
        module, _, name = imported.partition(":")
        if module.partition(".")[0] in _packages() - set(path.parts):
            yield module, name


def test_distributions_take_public_names_from_one_another() -> None:
    private = [
        f"{path.name}: {module} {name}"
        for path in OUTSIDE
        for module, name in _taken_from_others(path)
        if name not in import_module(module).__all__
    ]
    assert private == []


def test_commands_of_other_distributions_use_what_the_command_line_offers_them() -> None:
    said = ast.get_docstring(ast.parse((CLI / "__init__.py").read_text("utf-8"))) or ""
    offered = {f"swink_cli.{name}" for name in re.findall(r"(?m)^    (\w+) ", said)}
    page = (ROOT / "docs" / "how-to" / "add-a-command.md").read_text("utf-8")
    assert offered == set(re.findall(r"(?m)^\| `(swink_cli\.\w+)` ", page))
    taken = {
        module
        for path in OUTSIDE
        for module, _ in _taken_from_others(path)
        if module.partition(".")[0] == "swink_cli"
    }
    assert taken
    assert taken <= offered


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


OWNERS = {"Attempt": "plugins.attempt", "Driver": "streaming.driver"}
"""The module that alone may assign to the fields of these classes: the one that defines them."""


@cache
def _fields(module: str, owner: str) -> set[str]:
    """Return the fields that a class declares, or assigns to itself."""
    tree = ast.parse(BY_NAME[module].read_text("utf-8"))
    [found] = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == owner]
    declared = {n.target.id for n in found.body if isinstance(n, ast.AnnAssign)}  # type: ignore[union-attr]
    return declared | {name for base, name in _assigned(found) if base == "self"}


def _assigned(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what attributes are assigned to, as the text before the last dot and the name."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store | ast.Del):
                    yield ast.unparse(part.value), part.attr


def test_nobody_else_assigns_to_the_fields_of_an_attempt_or_a_driver() -> None:
    assert _told({path: _assigned_of_others(path) for path in sorted({*MODULES, *OUTSIDE})}) == {}


def _assigned_of_others(path: Path) -> list[str]:
    owners = {
        owner.lower(): _fields(module, owner)
        for owner, module in OWNERS.items()
        if BY_NAME[module] != path
    }
    text = path.read_text("utf-8")
    if not any(owner in text for owner in owners):
        return []  # nothing is assigned to a field of what is not named
    return [
        f"{base}.{name}"
        for base, name in _assigned(ast.parse(text))
        if name in owners.get(base.rpartition(".")[2].strip("_"), ())
    ]


def test_every_plugin_with_recordings_lists_what_its_messages_do_not_hold() -> None:
    shipped = {path.parents[2].name for path in ROOT.glob("plugins/*/src/*/recordings")}
    listed = {path.parents[1].name for path in ROOT.glob("plugins/*/tests/test_kept_fields.py")}
    assert shipped
    assert shipped <= listed
