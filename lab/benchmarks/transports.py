"""The HTTP clients that the benchmarks compare, and TLS for the servers of a run."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swink_core.providers import AiohttpClient, HTTPClient
from swink_transport_httptools import HttptoolsClient

TRANSPORTS = ("aiohttp", "httptools")


def http_client(transport: str) -> HTTPClient:
    """Return a new HTTP client. `transport` is one of `TRANSPORTS`."""
    return HttptoolsClient() if transport == "httptools" else AiohttpClient()


def add_transport(parser: argparse.ArgumentParser) -> None:
    """Add the option `--transport`, whose value `chosen` reads."""
    choices = (*TRANSPORTS, "both")
    help = "the HTTP client of swink; both take turns within a round"
    parser.add_argument("--transport", choices=choices, default="aiohttp", help=help)


def chosen(transport: str) -> tuple[str, ...]:
    """Return the transports that an option names."""
    return TRANSPORTS if transport == "both" else (transport,)


@contextmanager
def certificate() -> Iterator[Path]:
    """Make a certificate for 127.0.0.1, which this process and its children trust from now on.

    Needs the program `openssl`, and has to come before the import of aiohttp.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "certificate.pem")
        public = Path(f"{made}.public")
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", str(made), "-out", str(public),
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        made.write_bytes(made.read_bytes() + public.read_bytes())
        os.environ["SSL_CERT_FILE"] = str(public)
        yield made
