"""The table of docs/reference/real-clients.md: written from a run, and read as what is allowed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lab.clients.installed import CLIENTS, ROOT, version_of

__all__ = ["PAGE", "read", "write"]

PAGE = ROOT / "docs" / "reference" / "real-clients.md"

MARK = "<!-- Written by lab/clients/drive.py from a run of `make clients CLIENTS_ARGS=--write`. -->"

ABOUT = """\
Coding agents from their registries, run once each without a person and without a network: straight
at a scripted vendor that speaks the agent's protocol, and through the gateway, behind which the
same vendor is asked in another protocol (Messages for agents that speak OpenAI's, Chat Completions
for the others). `make clients` installs them, plays every scene again, and fails where an answer is
missing, a tool did not run, an agent does not end by itself, or asks the gateway more often than
this table has it."""

SCENES = {
    "answer": "an answer",
    "tool": "a call of its shell tool, then an answer",
    "pause": "an answer that is thought about, with the gateway's signs of life",
    "model": "an answer of the tiny local model of `swink-provider-local`, which computes",
    "503": "503 with `Retry-After: 1`, every time",
    "error": "words, then the protocol's own error, every time",
    "cut": "words, then the connection is lost, every time",
}

READING = """\
*requests* is how often the agent asked for one prompt; *stopped* that it had not come to an end
after 100 seconds and was killed. Behind the gateway, *upstream* is how often the vendor was asked:
the gateway repeats nothing by itself. The figures for `503`, `error` and `cut` were taken when it
still did, and when a failure before the first word came inside an answer. opencode asks for a title
first, which is a request of its own; Qwen Code may ask something of its own after an answer.

A failure before the first word has the vendor's own status and `Retry-After`, so that agents wait
and repeat their requests as they do without the gateway. After a failure behind words most of them
ask again a few times; Claude Code then asks for the whole answer without `stream`."""

_ROW = re.compile(r"^\| ([^|]+) \| `(\w+)` \| [^|]* \| (\d+) \|", re.M)


def read() -> dict[tuple[str, str], int]:
    """Return how often a client may ask through the gateway in a scene."""
    text = PAGE.read_text("utf-8") if PAGE.exists() else ""
    return {(name, mode): int(asked) for name, mode, asked in _ROW.findall(text)}


def write(results: Sequence[tuple[Any, Any]]) -> None:
    """Write the page anew; rows of clients that did not run stay."""
    rows = {(r.client.name, r.mode): _row(direct, r) for direct, r in results}
    old = PAGE.read_text("utf-8").splitlines() if PAGE.exists() else []
    kept = {(m[1], m[2]): line for line in old if (m := _ROW.match(line))}
    lines = [
        "| client | scene | requests, direct | requests, gateway | upstream |",
        "|---" * 5 + "|",
    ]
    lines += [rows.get(key, kept.get(key, "")) for key in _order({**kept, **rows})]
    scenes = "\n".join(f"| `{name}` | {what} |" for name, what in SCENES.items())
    parts = [
        "# Real clients under failure", MARK, ABOUT,
        f"| scene | the vendor gives |\n|---|---|\n{scenes}",
        "\n".join(lines), READING, "## Versions", _versions(),
    ]  # fmt: skip
    PAGE.write_text("\n\n".join(parts) + "\n", "utf-8")


def _order(rows: dict[tuple[str, str], str]) -> list[tuple[str, str]]:
    """Return the keys of rows, client by client and scene by scene."""
    return [(c.name, mode) for c in CLIENTS for mode in SCENES if (c.name, mode) in rows]


def _row(direct: Any, gateway: Any) -> str:
    asked = "" if direct is None else str(direct.asked)
    if direct is not None and not direct.run.ended:
        asked += ", stopped"
    cells = (gateway.client.name, f"`{gateway.mode}`", asked, gateway.asked, gateway.upstream)
    return "| " + " | ".join(map(str, cells)) + " |"


def _versions() -> str:
    known = {client.package: version_of(client.package) for client in CLIENTS}
    return ", ".join(f"`{package}` {version}" for package, version in known.items())
