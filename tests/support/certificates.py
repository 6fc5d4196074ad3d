"""Certificates for servers on loopback, made when they are needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def openssl_certificate(folder: Path) -> tuple[Path, Path]:
    """A new self-signed certificate; skips the test if openssl is missing."""
    import shutil
    import subprocess

    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ})
    return key, certificate
