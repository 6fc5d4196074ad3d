"""Run the notebook of the documentation, and write it with its outputs, and the page that shows it.

python tools/notebook_page.py
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent.parent / "docs" / "tutorials" / "notebook.ipynb"
PAGE = NOTEBOOK.with_suffix(".md")

SHOWN = ("text/html", "text/plain")
"""Forms of an output, the best first."""

NOTE = f"This page is the notebook [{NOTEBOOK.name}]({NOTEBOOK.name}) with its outputs."


def read(path: Path = NOTEBOOK) -> dict[str, Any]:
    """Return the notebook as JSON data."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of a fresh kernel.

    Raises ImportError without nbclient and ipykernel.
    """
    nbformat: Any = import_module("nbformat")
    nbclient: Any = import_module("nbclient")
    node = nbformat.reads(json.dumps(notebook), as_version=4)
    nbclient.NotebookClient(node, timeout=60, kernel_name="python3", record_timing=False).execute()
    done: dict[str, Any] = json.loads(nbformat.writes(node))
    done["metadata"] = notebook["metadata"]  # without the version of this Python
    for cell in done["cells"]:
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                output["data"].pop("text/plain", None)
    return done


def page(notebook: dict[str, Any]) -> str:
    """Return the notebook as a page of Markdown."""
    title, *cells = notebook["cells"]
    parts = ["".join(title["source"]), NOTE]
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```py\n{source}\n```", *map(_shown, cell["outputs"])]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    form = next(form for form in SHOWN if form in data)
    text = "".join(data[form])
    return f"<div>{text}</div>" if form == "text/html" else f"```text\n{text.rstrip()}\n```"


def main() -> None:
    """Write the notebook and its page."""
    notebook = executed(read())
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page(notebook), "utf-8")


if __name__ == "__main__":
    main()
