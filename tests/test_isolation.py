"""No provider's package is imported before its first use, with all of them installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import requires

import pytest

from swink_core import Host

HOST = Host()
PACKAGES = {HOST.entry(name).package for name in HOST.provider_names()}

STREAMED = """
import asyncio
from swink_core import Client
async def main():
    async with Client() as client, client.stream("echo/echo", "Hello") as stream:
        assert (await stream.result()).text
asyncio.run(main())
"""

COMMAND = """
from contextlib import suppress
from swink_cli.main import main
with suppress(SystemExit):
    main({words!r})
"""


def _imported(program: str) -> set[str]:
    """Returns which providers' packages are imported when a program has run."""
    code = f"{program}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout.splitlines()[-1])
    return {name.partition(".")[0] for name in modules} & PACKAGES


@pytest.mark.parametrize(
    ("program", "imported"),
    [
        pytest.param("import swink_core", set(), id="importing the core"),
        pytest.param("import swink_testing", set(), id="importing the core's test tools"),
        pytest.param("import swink_cli.main", set(), id="importing the command line"),
        pytest.param(COMMAND.format(words=["providers"]), set(), id="listing providers"),
        pytest.param(COMMAND.format(words=["models"]), set(), id="listing models"),
        pytest.param(
            COMMAND.format(words=["providers", "--json"]), set(), id="listing providers as JSON"
        ),
        pytest.param(STREAMED, {"swink_provider_echo"}, id="asking one provider"),
    ],
)
def test_no_provider_is_imported_until_it_is_addressed(program: str, imported: set[str]) -> None:
    assert _imported(program) == imported


def _declared(package: str) -> set[str]:
    """Returns the packages of the distributions that a provider's declares as needed."""
    needed = requires(package.replace("_", "-")) or []
    names = (re.match(r"[\w-]+", requirement) for requirement in needed)
    return {name[0].replace("-", "_") for name in names if name}


def test_real_providers_are_installed_that_could_be_imported() -> None:
    assert len(PACKAGES) > 2


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_provider_is_imported_with_no_other_but_those_it_declares(package: str) -> None:
    assert {package} <= _imported(f"import {package}") <= {package} | _declared(package)
