"""Every Python block of the README and the documentation runs as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(page, source, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, source in enumerate(BLOCK.findall(page.read_text("utf-8")), 1)
]


@pytest.mark.parametrize(("page", "source"), BLOCKS)
def test_the_block_runs_and_prints_something(
    page: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(source, str(page), "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.strip()


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
