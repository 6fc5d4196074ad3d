"""Runs programs one after another: reads JSON of their texts, prints JSON of what each printed.

Any Python runs it, with only the standard library.
"""

import contextlib
import io
import json
import sys
import traceback


def printed(program: str) -> str:
    """Return the output of a program, and its failure if it failed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        except Exception:
            print(traceback.format_exc())
    return said.getvalue()


if __name__ == "__main__":
    programs = json.load(sys.stdin)
    print(json.dumps([printed(program) for program in programs]))
