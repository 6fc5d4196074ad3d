"""Distributions that a test installs: folders on PYTHONPATH with metadata and modules.

install(site, "acme-tools", {"swink.commands": {"hello": "acme_tools:hello"}}, {
    "acme_tools.py": "…",
})
swink("hello", PYTHONPATH=str(site))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["LINES_PROVIDER", "catalogue", "install", "record"]

LINES_PROVIDER = '''
"""A provider whose wire format is a line of JSON a word; says on import that it was imported."""

import json
import os
from pathlib import Path

import msgspec

from swink_core import StopReason
from swink_core.providers import HTTPProvider, NDJSONDecoder

if "IMPORT_MARK" in os.environ:
    Path(os.environ["IMPORT_MARK"]).touch()


class Parser:
    def feed(self, frame, out):
        data = msgspec.json.decode(frame, type=dict)
        if "think" in data:
            out.thinking(data["think"])
        if "say" in data:
            out.text(data["say"])
        if "stop" in data:
            out.usage(input=data.get("heard"), output=data.get("said"))
            known = data["stop"] in [*StopReason]
            if not known:
                out.notice("stop_reason", f"it is unknown: {data['stop']}")
            out.stop(StopReason(data["stop"]) if known else StopReason.STOP)
            out.finish()


class LinesProvider(HTTPProvider):
    decoder = NDJSONDecoder
    content_types = ("application/x-ndjson",)
    path = "/talk"

    def convert(self, model, context, options):
        return {"said": [message.content for message in context.messages]}

    def parser(self, model):
        return Parser()
'''


def install(
    folder: Path,
    name: str,
    entry_points: Mapping[str, Mapping[str, str]],
    files: Mapping[str, str],
    version: str = "1.0",
    summary: str = "",
) -> Path:
    """Install a distribution into a folder: `entry_points` by group and name, `files` by path."""
    module = name.replace("-", "_")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir(parents=True)
    facts = {"Metadata-Version": "2.1", "Name": name, "Version": version, "Summary": summary}
    metadata = "".join(f"{key}: {value}\n" for key, value in facts.items() if value)
    (info / "METADATA").write_text(metadata)
    lines = []
    for group, points in entry_points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def catalogue(*providers: str, settings: str = "{}") -> str:
    """Write a models.toml of providers that speak LINES_PROVIDER's wire format."""
    rows = []
    for name in providers:
        rows.append(
            f'[[providers]]\nname = "{name}"\ntitle = "{name.title()} Inc."\n'
            f'wire_format = "lines"\nbase_url = "http://{name}.invalid"\n'
            f'api_key_env = ["{name.upper()}_API_KEY"]\nsettings = {settings}\n'
        )
        rows.append(
            f'[[models]]\nid = "large"\nprovider = "{name}"\ncontext_window = 200000\n'
            f'max_output = 8192\ncapabilities = ["tools"]\nas_of = "2020-01-01"\n'
            f"prices = {{ input = 3.0, output = 15.0 }}\n"
        )
    return "\n".join(rows)


def record(
    folder: Path, provider: str, lines: Sequence[dict[str, Any]], seconds: float, **head: Any
) -> None:
    """Write a recording of LINES_PROVIDER's wire format, a line a read."""
    pieces = [json.dumps(line) + "\n" for line in lines]
    step = seconds / max(1, len(pieces))
    folder.mkdir(parents=True)
    (folder / "body.ndjson").write_text("".join(pieces))
    response = {
        "status": 200,
        "headers": {"Content-Type": "application/x-ndjson"},
        "body": "body.ndjson",
        "chunks": [[step * number, len(piece)] for number, piece in enumerate(pieces)],
    }
    response |= {name: head.pop(name) for name in [*head] if name in response}
    data = {
        "version": 2,
        "provider": provider,
        "model": "large",
        "wire_format": "lines",
        "legs": [{"response": response}],
        **head,
    }
    (folder / "recording.json").write_text(json.dumps(data))
