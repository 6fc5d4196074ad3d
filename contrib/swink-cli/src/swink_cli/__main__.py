"""The entry point of `swink`, which handles Ctrl-C during startup and shutdown.

Without this module, Python prints a traceback if Ctrl-C arrives while modules are imported or while
the interpreter exits.
"""

import os
import signal
import sys

from swink_cli.exits import EXIT_INTERRUPTED

__all__ = ["main"]


def main() -> int:
    """Run the command line of this process, and return its exit code."""
    usual = signal.default_int_handler
    heeds = signal.getsignal(signal.SIGINT) is usual  # False in a background process
    if heeds:
        signal.signal(signal.SIGINT, _leave)
    from swink_cli.main import main as run

    if heeds:
        signal.signal(signal.SIGINT, usual)
    try:
        return run()
    except KeyboardInterrupt:  # while it printed the error
        return EXIT_INTERRUPTED
    finally:
        if heeds:
            signal.signal(signal.SIGINT, _leave)


def _leave(*_: object) -> None:
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
