"""Run the SDKs' own tests of what the gateway serves, through the gateway.

    python -m lab.clients.suites FOLDER          # with openai-python and anthropic-sdk-python in it
    python -m lab.clients.suites FOLDER --write  # and write their table of the page anew

FOLDER has checkouts of the SDKs' repositories, which the project does not keep. Each is installed
into `.venv-clients/suite-NAME`. `lab/vendor` answers behind the gateway. Exit code 1 where a test
fails for another reason than those of `REASONS`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from attrs import define

import lab.clients.table as table
import swink_core as swink
from lab.clients.installed import FOLDER
from lab.vendor import Vendor
from swink_gateway.serving.server import Gateway

REQUIREMENTS = Path(__file__).parent / "suites.txt"

KEY = "vendors-key"

OTHER = "another reason"


@define
class Suite:
    """The tests of an SDK. `path` follows the gateway's URL; `routes` are the tests' models."""

    name: str
    path: str
    tests: tuple[str, ...]
    routes: dict[str, list[str]]


SUITES = [
    Suite(
        "openai-python",
        "/v1",
        ("chat", "responses", "test_embeddings.py", "test_models.py", "test_responses.py"),
        {
            "gpt-4o-mini": ["openai/gpt-4o-mini"],
            "text-embedding-3-small": ["openai/text-embedding-3-small"],
        },
    ),
    Suite(
        "anthropic-sdk-python",
        "",
        ("test_messages.py", "test_models.py", "beta/test_messages.py", "beta/test_models.py"),
        {
            name: ["anthropic/claude-opus-4-6"]
            for name in ("claude-opus-4-6", "claude-1.3", "model_id")
        },
    ),
]

REASONS = {
    r"model is missing":
        "the request contains no model, which the gateway needs to choose a provider",
    r"'claude-1[\w.-]*' is not a model name":
        "the requested model is retired, and the gateway has no route for it",
    r"APIResponseValidationError":
        "the SDK requests vectors in base64 and rejects them in its strict mode, "
        "also without the gateway",
    r"max_tokens=0": "the test sets `max_tokens` to 0",
    r"background: true": "the gateway does not support background responses",
    r"/responses/input_tokens is not":
        "the gateway counts tokens only in Messages and Gemini's API",
    r"/responses/compact is not": "the gateway does not support compacting conversations",
    r"Response with id '[\w-]+' not found":
        "the gateway has stored no response with the id in the test",
    r"/chat/completions/.* is not|Method Not Allowed.*405|405 .*Method Not Allowed":
        "the gateway does not list or delete the vendor's stored chat completions and models",
}  # fmt: skip
"""Why a test fails, by what the failure says."""


def python_of(suite: Suite, checkout: Path) -> Path:
    """Return the interpreter of a suite's environment, which is made if it is missing."""
    folder = FOLDER / f"suite-{suite.name}"
    python = folder / "bin" / "python"
    if not (folder / ".installed").exists():
        print(f"installing {checkout} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        wanted = [f"{checkout}[aiohttp]", "-r", str(REQUIREMENTS)]
        subprocess.run([*pip, *wanted], check=True)
        (folder / ".installed").touch()
    return python


async def run(suite: Suite, checkout: Path) -> tuple[int, Counter[str], list[str]]:
    """Run a suite; return how many tests passed, how many failed by reason, and other failures."""
    python = python_of(suite, checkout)
    own: dict[str, Any] = {"api_key": KEY}
    with tempfile.TemporaryDirectory(prefix="swink-suite-") as folder:
        report = Path(folder) / "report.xml"
        tests = [f"tests/api_resources/{name}" for name in suite.tests]
        options = ["-q", "-p", "no:cacheprovider", "-n", "2", "--tb=no", f"--junitxml={report}"]
        async with (
            Vendor({"clients": [KEY]}) as vendor,
            swink.Client(
                providers={
                    "openai": {**own, "base_url": f"{vendor.url}/v1"},
                    "anthropic": {**own, "base_url": vendor.url},
                }
            ) as client,
            Gateway(client, routes=suite.routes) as gateway,
        ):
            process = await asyncio.create_subprocess_exec(
                python, "-m", "pytest", *options, *tests, cwd=checkout,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**os.environ, "TEST_API_BASE_URL": gateway.url + suite.path},
            )  # fmt: skip
            await process.wait()
        return _read(report)


def _read(report: Path) -> tuple[int, Counter[str], list[str]]:
    passed, failed, others = 0, Counter[str](), []
    for case in ElementTree.parse(report).iter("testcase"):
        faults = [*case.iter("failure"), *case.iter("error")]
        if not faults and case.find("skipped") is None:
            passed += 1
        for fault in faults:
            said = fault.get("message") or ""
            reason = next((why for words, why in REASONS.items() if re.search(words, said)), OTHER)
            failed[reason] += 1
            if reason == OTHER:
                others.append(f"{case.get('classname')}.{case.get('name')}: {said[:300]}")
    return passed, failed, others


def main() -> None:
    """Run the suites whose checkouts are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the checkouts")
    parser.add_argument("--write", action="store_true", help="write the table anew")
    given = parser.parse_args()
    rows, wrong = [], []
    for suite in SUITES:
        checkout = given.folder / suite.name
        if not checkout.is_dir():
            sys.exit(f"{checkout} is missing: clone the repository of the SDK there")
        version = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"]
        passed, failed, others = asyncio.run(run(suite, checkout))
        print(f"{suite.name} {version}: {passed} passed, {failed.total()} failed", flush=True)
        rows.append((f"{suite.name} {version}", passed, failed))
        wrong += others
    if given.write:
        table.write_suites(rows)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
