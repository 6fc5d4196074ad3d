"""The notebook of the documentation runs, and the page shows what it brings."""

from __future__ import annotations

from typing import Any

import notebook_page
import pytest


def shown(notebook: dict[str, Any]) -> list[Any]:
    """The forms of the outputs of each cell."""
    cells = notebook["cells"]
    return [[o.get("data", o.get("text")) for o in cell.get("outputs", ())] for cell in cells]


@pytest.mark.filterwarnings("default")  # of the libraries that run a kernel
def test_the_notebook_runs_offline_and_brings_the_outputs_that_are_stored() -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    stored = notebook_page.read()

    assert shown(notebook_page.executed(stored)) == shown(stored)
    assert all(cell["outputs"] for cell in stored["cells"] if cell["cell_type"] == "code")


def test_the_page_is_made_of_the_notebook() -> None:
    assert notebook_page.PAGE.read_text("utf-8") == notebook_page.page(notebook_page.read())
