"""The dialect on the page about dialects passes the conformance kit."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from types import SimpleNamespace

import pytest
from documents import ROOT

from swink_core import Host
from swink_test_helpers.installed import install
from swink_testing.conformance import PROVIDER_CHECKS, Subject, run_checks

PACKAGE = "dialect_of_the_page"

SOURCE = """
from swink_provider_openai import OpenAIProvider


class Acme(OpenAIProvider):
    pass
"""

MODELS = """
[[models]]
id = "large"
capabilities = ["tools", "thinking"]
"""


def described() -> str:
    """Return the page's TOML blocks as one file: each table has the lines of all blocks."""
    page = (ROOT / "docs" / "how-to" / "declare-a-dialect.md").read_text("utf-8")
    tables: dict[str, list[str]] = {}
    for block in re.findall(r"^    \[provider\]\n(?:(?:    .*)?\n)+", page, re.MULTILINE):
        for line in textwrap.dedent(block).splitlines():
            if line.startswith("["):
                lines = tables.setdefault(line, [])
            else:
                lines.append(line)
    return "\n".join("\n".join((name, *lines)) for name, lines in tables.items())


def test_the_dialect_of_the_page_passes_the_kit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    importlib.invalidate_caches()
    data = f"{described()}\n{MODELS}"
    assert {"path", "answer", "max_tokens"} <= tomllib.loads(data)["provider"]["dialect"].keys()
    files = {f"{PACKAGE}/__init__.py": SOURCE, f"{PACKAGE}/models.toml": data}
    install(
        tmp_path, "swink-provider-acme", {"swink.providers": {"acme": f"{PACKAGE}:Acme"}}, files
    )
    [dist] = [PathDistribution(path) for path in tmp_path.glob("*.dist-info")]
    [point] = dist.entry_points
    entry = SimpleNamespace(
        name=point.name, group=point.group, value=point.value, load=point.load, dist=dist
    )
    subject = Subject("acme", Host(entry_points=[entry], environ={}))

    checks = [check for check in PROVIDER_CHECKS if check.name != "recordings"]
    results = run_checks(checks, subject)  # the page shows no recordings

    assert {r.name: r.detail for r in results if r.is_fault} == {}
