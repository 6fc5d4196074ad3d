"""The promises of every installed distribution of swink."""

from __future__ import annotations

import inspect
import logging
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

import pytest

CANARY = "canary-9f2c41d7e0"

PACKAGES = sorted(
    {
        distribution.name.replace("-", "_")
        for distribution in metadata.distributions()
        if distribution.name.partition("-")[0] == "swink"
    }
)


def _modules(package: str) -> Iterator[ModuleType]:
    top = import_module(package)
    yield top
    for found in pkgutil.walk_packages(top.__path__, f"{package}."):
        if not found.name.endswith("__main__"):
            yield import_module(found.name)


def _functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    holders = [module, *(kind for _, kind in inspect.getmembers(module, inspect.isclass))]
    for holder in holders:
        for value in vars(holder).values():
            function = getattr(value, "__func__", value)
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                yield f"{module.__name__}: {function.__qualname__}", function


@pytest.mark.parametrize("package", PACKAGES)
def test_no_signature_prints_the_environment(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", CANARY)
    shown = {name: f for module in _modules(package) for name, f in _functions(module)}
    assert [name for name, f in shown.items() if CANARY in str(inspect.signature(f))] == []
    assert shown


@pytest.mark.parametrize("package", PACKAGES)
def test_a_library_says_nothing_on_stderr_by_itself(package: str) -> None:
    """Python prints warnings of loggers without a handler."""
    for module in _modules(package):
        for value in vars(module).values():
            if isinstance(value, logging.Logger):
                top = logging.getLogger(value.name.partition(".")[0])
                assert any(isinstance(h, logging.NullHandler) for h in top.handlers), value.name


@pytest.mark.parametrize("package", PACKAGES)
def test_what_an_index_shows_has_no_link_that_leads_nowhere_there(package: str) -> None:
    text = str(metadata.metadata(package).json["description"])
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    assert text.startswith("# ")


AS_ON_WINDOWS = """
import asyncio, os, pkgutil, signal, sys
from importlib import import_module
LACKS = {
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGTSTP SIGUSR1 SIGUSR2 "
            "SIGWINCH SIG_BLOCK SIG_UNBLOCK pthread_sigmask setitimer sigwait",
    os: "chown fork geteuid getuid killpg mkfifo nice pread pwrite register_at_fork setsid "
        "sysconf",
}
for module, names in LACKS.items():
    for name in names.split():
        vars(module).pop(name, None)
for package in sys.argv[1:]:
    for found in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        if not found.name.endswith("__main__"):
            try:
                import_module(found.name)
            except Exception as error:
                print(found.name, repr(error))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="every other test shows it there")
def test_all_modules_can_be_imported_without_what_windows_lacks() -> None:
    command = [sys.executable, "-c", AS_ON_WINDOWS, *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
