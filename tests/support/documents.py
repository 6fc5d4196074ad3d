"""The pages of the documentation, their blocks, and stand-ins for the vendors that they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import swink_core as swink
from swink_judge import Judge
from swink_judge.strict import StrictServer

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [  # of the generated pages of providers, which are all of one form, one
    ROOT / "README.md",
    *sorted(
        page
        for page in (ROOT / "docs").rglob("*.md")
        if page.parent.name != "providers" or page.stem in ("echo", "index")
    ),
    *sorted((ROOT / "contrib").glob("*/README.md")),
    *sorted((ROOT / "plugins").glob("*/README.md")),
]

MOVING = sorted((ROOT / "docs/how-to").glob("move-from-*.md"))
"""Pages of programs in pairs, in another library and in swink, which tests/test_moving.py runs."""

COMPARED = ROOT / "docs/explanation/programs-compared.md"
"""The page of the same programs in several libraries, which tests/test_moving.py runs too."""

_FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLED = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r'^```python(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_MODEL = re.compile(r"[\"' ]([a-z][a-z-]*)/[\w]")

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)

PROGRAMS = {
    *("cd", "eval", "export", "git", "make", "npm", "opentelemetry-instrument"),
    *("pip", "pytest", "python", "rm", "swink"),
}
"""The prefix of shell lines; other indented blocks are something else."""


def name_of(page: Path) -> str:
    """Return a page's path as tests are named by it."""
    return str(page.relative_to(ROOT))


def python_blocks(page: Path) -> list[str]:
    """Return the Python blocks of a page, in order."""
    return [text for kind, text in _FENCED.findall(page.read_text("utf-8")) if kind == "python"]


def python_programs(page: Path) -> dict[str, str]:
    """Return the Python programs of a page by name, in order.

    Blocks with the same title are the parts of one file; any other block is a program.
    """
    found: dict[str, str] = {}
    for number, (title, text) in enumerate(_PYTHON.findall(page.read_text("utf-8"))):
        name = title or f"block {number}"
        found[name] = f"{found[name]}\n\n{text}" if name in found else text
    return found


def files_of(page: Path) -> dict[str, str]:
    """Return the files that a page has its reader write, its blocks with a title, by name."""
    found: dict[str, str] = {}
    for name, text in _TITLED.findall(page.read_text("utf-8")):
        found[name] = f"{found[name]}\n\n{text}" if name in found else text
    return found


def programs_of(page: Path) -> dict[str, tuple[str, str]]:
    """Return the pairs of programs of a page, the old and the new, by the section they are in."""
    found: dict[str, tuple[str, str]] = {}
    for title, programs in programs_by_library(page).items():
        (_, old), (library, new) = programs.items()
        assert library == "swink", f"{page.name}: {title}"
        found[title] = (old, new)
    return found


def programs_by_library(page: Path) -> dict[str, dict[str, str]]:
    """Return the programs of a page by the section they are in, and the library they are for."""
    _, *sections = _SECTION.split(page.read_text("utf-8"))
    found = zip(sections[::2], sections[1::2], strict=True)
    return {title: dict(programs) for title, text in found if (programs := _TITLED.findall(text))}


def shell_lines(page: Path) -> list[str]:
    """Return the commands of a page, in order, without prompts and comments."""
    lines = _FENCED.sub("", page.read_text("utf-8")).splitlines()
    indented = [line[4:].removeprefix("$ ") for line in lines if re.match(r"    \S", line)]
    return [re.sub(r"  +(#.*|[a-z].*)$", "", line) for line in indented if _is_typed(line)]


def _is_typed(line: str) -> bool:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # an apostrophe: prose, or another language
        return False
    words = [word for word in words if not re.match(r"\w+=", word)]
    return bool(words) and words[0] in PROGRAMS and words[1:2] != ["="]


@contextmanager
def vendors(text: str, environment: dict[str, str]) -> Iterator[None]:
    """Set the addresses and keys of the providers in a text to local strict servers."""
    catalog = swink.Client().catalog
    with ExitStack() as servers:
        for provider in sorted({*_MODEL.findall(text)} & Judge().providers):
            if (known := catalog.provider(provider)) is not None and known.base_url_env:
                server = servers.enter_context(StrictServer(provider))
                environment[known.base_url_env[0]] = server.url
                environment.update(dict.fromkeys(known.api_key_env[:1], "test"))
        environment.setdefault("AWS_REGION", "us-east-1")
        yield
