"""The page at `/`: the served models, the settings for clients, and a form to try a model."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from aiohttp import web
from attrs import asdict

from swink_gateway.policy.served_models import ServedModels
from swink_gateway.protocols.table import PROTOCOLS

__all__ = ["page"]

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Blocks content from other origins (W3C Content Security Policy Level 3)."""


def page(served: ServedModels) -> web.Response:
    """Return the page; its URLs have the address that the browser used."""
    names = served.names() + [f"{info.provider}/{info.id}" for info in served.models()]
    template = Template((files("swink_gateway.serving") / "page.html").read_text("utf-8"))
    text = template.substitute(
        providers=", ".join(f"<code>{escape(n)}</code>" for n in served.providers()),
        setups=json.dumps(_setups()),
        options="".join(f'<option value="{escape(name)}">' for name in names),
    )
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"}
    return web.Response(text=text, content_type="text/html", headers=headers)


def _setups() -> list[dict[str, Any]]:
    """Return the settings of the clients, without duplicates."""
    setups = dict.fromkeys(row.setup for row in PROTOCOLS.values())
    return [asdict(setup) for setup in setups if setup is not None]
