"""The imports of commands: start-up time must not grow with the installed packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"aiohttp", "rich", "cattrs", "markdown_it", "swink_core", "asyncio"}

# what runs, and which of the heavy packages it may import
TABLE: list[tuple[list[str], set[str]]] = [
    (["--version"], set()),
    (["--help"], set()),
    (["providers"], {"swink_core", "asyncio"}),
    (["models"], {"swink_core", "asyncio"}),
    (["plugins"], {"swink_core", "asyncio"}),
    (["ask", "--help"], {"swink_core", "asyncio"}),
    # once the answer is there, what is kept is written by cattrs
    (["ask", "-m", "echo/echo", "Hi"], {"swink_core", "asyncio", "cattrs"}),
]


@pytest.mark.parametrize(("arguments", "allowed"), TABLE, ids=[" ".join(row[0]) for row in TABLE])
def test_a_command_imports_only_what_it_needs(
    swink_environment: dict[str, str], arguments: list[str], allowed: set[str]
) -> None:
    program = (
        "import sys\n"
        "from swink_cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=swink_environment,
        check=True,
    )
    imported = set(done.stderr.splitlines()[-1].split())
    assert imported & HEAVY <= allowed
    if "ask" not in arguments:
        assert not {name for name in imported if name.startswith("swink_provider_")}


def test_the_version_reads_no_command_and_looks_for_none(
    swink_environment: dict[str, str],
) -> None:
    program = (
        "import sys\n"
        "from importlib import metadata\n"
        "def distributions(): raise AssertionError('the version reads no entry point')\n"
        "metadata.distributions = distributions\n"
        "from swink_cli.main import main\n"
        "code = main(['--version'])\n"
        "print(*(name for name in sys.modules if '.commands' in name), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=swink_environment,
        check=False,
    )
    assert (done.returncode, done.stderr.split()) == (0, [])
    assert done.stdout.startswith("swink ")


WITHOUT_POSIX = """
import asyncio, importlib, os, pkgutil, sys
import platformdirs  # which goes by the system, and never looks for what Windows has not
for name in ("curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "termios", "tty"):
    sys.modules[name] = None

def unheard(*_): raise NotImplementedError
for name in ("add_signal_handler", "remove_signal_handler"):
    setattr(asyncio.SelectorEventLoop, name, unheard)
for name in ("fork", "getuid", "killpg", "setsid", "umask"):
    delattr(os, name)

import swink_cli, swink_recorder
for package in (swink_cli, swink_recorder):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
sys.exit(swink_cli.main.main(["ask", "-m", "echo/echo", "Hi"]))
"""


def test_no_module_needs_posix(swink_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=swink_environment,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Hi\n"), done.stderr


INTERRUPTED = """
import atexit, os, signal, sys
when = sys.argv.pop(1)

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)

class Finder:
    def find_spec(self, name, *_):
        if name == when:
            interrupt()

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
if when == "the end":
    atexit.register(interrupt)
from swink_cli.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("when", "said"), [("click", ""), ("swink_core", "stopped"), ("the end", "")]
)
def test_an_interrupt_prints_no_traceback_from_the_first_import_to_the_end(
    swink_environment: dict[str, str], when: str, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, when, "providers", "echo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=swink_environment,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (130, said)
