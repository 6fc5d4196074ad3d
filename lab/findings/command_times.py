"""Print the processor time of commands, of swink and, where it is installed, of the `llm` command.

    python -m lab.findings.command_times

`make scoreboard` installs `llm` into `.venv-peers/llm`. Each figure is the least of four runs.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
from pathlib import Path

from swink_testing.command_line import clean_environment, swink_command

RUNS = 4

LLM = Path(".venv-peers/llm/bin/llm")

COMMANDS: list[tuple[list[str], list[str] | None]] = [
    (["--version"], ["--version"]),
    (["--help"], ["--help"]),
    (["ask", "-m", "echo/echo", "Hi"], None),
    (["ask", "-c", "more"], None),
    (["log"], ["logs"]),
    (["models"], ["models"]),
    (["doctor"], None),
]
"""A command of swink, and the one of `llm` that does the same; `None` if it needs a vendor."""


def milliseconds(command: list[str], environment: dict[str, str]) -> float:
    """Return the least processor time of some runs."""
    found = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append(1000 * used)
    return min(found)


def main() -> None:
    """Print one line for each command."""
    with tempfile.TemporaryDirectory() as folder:
        environment = clean_environment(Path(folder))
        for ours, theirs in COMMANDS:
            used = milliseconds(swink_command(*ours), environment)
            line = f"swink {' '.join(ours):24} {used:5.0f} ms"
            if theirs is not None and LLM.exists():
                used = milliseconds([str(LLM), *theirs], environment)
                line += f"   llm {' '.join(theirs):12} {used:5.0f} ms"
            print(line, flush=True)


if __name__ == "__main__":
    main()
