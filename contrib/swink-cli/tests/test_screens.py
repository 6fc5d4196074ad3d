"""The output of commands in a real terminal of 40, 80 and 200 columns, and in a pipe.

The screens are in `screens/`; with WRITE_SCREENS=1 they are written anew, to be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from swink_test_helpers.screens import INTERRUPT, WIDTHS, Typed, check_screen

SCREENS = Path(__file__).parent / "screens"

SAVED = """data: {"choices": [{"index": 0, "delta": {"content": "The *tide*."}}]}

data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}

data: [DONE]

"""
"""An answer of the Chat Completions API."""

LINES = """
alias --help
keys set --help
ask -m echo/echo "# Tides\n\nThe *moon* pulls the **sea**, and the sea follows it round the earth.
\n- high water\n- low water\n\n```python\nprint('ebb')\n```"
ask -m echo/fail-auth Hi
events -m echo/echo Hi
models echo -q stop -q think
models -q nothing
models echo --tools --sort name -q fail-un
default echo/echo
alias quick echo/echo echo/think
aliases
config
config get aliases.quick
config get colour
keys
provider echo
ask -m echo/fail-auth -m echo/echo Hi
ask -m echo/tool -y --functions "def look(city: str, day: int = 1): 'Look.'; return city" Oslo
ask -m echo/echo -s "Into $language" --save translate "Translate: $input"
template
ask -t translate Hi
log
log conversations
log costs
tools
tools --functions "def look(city: str): 'Look out of the window, and say what is to be seen.'"
modles
copy <<< "Hi"
ask
chat -m echo/echo <<< "Hi\n/tokens\n/model echo/think\nAnd\n/nothing\n"
chat -m echo/echo -c <<< "/help\n"
plugins
doctor
default
config set aliases.slow echo/slow
config unset aliases.slow
config path
config edit
keys set openai <<< "sk-0123456789"
keys set nobody
keys list
keys path
keys remove openai
template show translate
template path translate
template edit translate
template remove translate
log show
last
last --code
log search Oslo
log search nowhere
log replay
log export x --output call.json
log path
log delete --all
log
record -m openai/any --from-sse answer.sse -o settings.api=chat --output kept "The tide?" <<< ""
record -m echo/echo --output echoed Hi
replay kept --fast
replay nowhere
new acme --kind all
demo --speed 50
-V
"""

LEAVE = "\x04"

SEVERAL = "ask -m echo/echo -m echo/stall High tide"

IN_A_PIPE = [Typed(SEVERAL, [("High tide", INTERRUPT)])]

IN_A_TERMINAL = [
    Typed(SEVERAL, [("High tide", ""), ("echo/stall", ""), ("High", INTERRUPT)]),
    Typed(
        "chat -m echo/echo",
        [
            ("> ", "When does the tide turn, and which of the two is higher?\r"),
            ("so far", ""), ("> ", "And then?\r"),
            ("so far", ""), ("> ", "/tokens\r"),
            ("begins at", ""), ("> ", "/help\r"),
            ("continues on", ""), ("> ", "/nothing\r"),
            ("lists", ""), ("> ", INTERRUPT),
            ("exits)", ""), ("> ", LEAVE),
        ],
    ),
]  # fmt: skip
VARYING = [
    (r"(?m)^((?:echo +none|openai +openai-responses) +\d+)\s+[\d.]+ m?s +", r"\1  1 ms  "),
    (r"(WIRE|EVENTS) +(?=FIRST|TOKEN)", r"\1  "),
    (r"(?m)^(echo/(?:echo|stall)) +[\d.]+ m?s +", r"\1  1 ms  "),
]


@pytest.fixture
def environment(swink_environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """Two providers, and places whose names are short, and as long each time."""
    (tmp_path / "answer.sse").write_text(SAVED)
    with TemporaryDirectory(prefix="s", dir="/tmp") as kept:
        yield {
            **swink_environment,
            "SWINK_PLUGINS": "echo,openai",
            "SWINK_CONFIG": "config.toml",
            "XDG_CONFIG_HOME": kept,
            "XDG_STATE_HOME": "state",
            "EDITOR": "cat",
        }


@pytest.mark.parametrize("columns", WIDTHS)
def test_screens(environment: dict[str, str], tmp_path: Path, columns: int) -> None:
    lines = re.findall(r"(?:[^\n\"]|\"[^\"]*\")+", LINES)
    typed = IN_A_TERMINAL if columns else IN_A_PIPE
    check_screen([*lines, *typed], columns, SCREENS, tmp_path, environment, VARYING)
