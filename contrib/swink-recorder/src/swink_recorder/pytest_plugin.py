"""What pytest gives to every test where swink-recorder is installed: the fixture `cassette`.

    async def test_it(cassette):
        answer = await my_program()         # asks a model through any client of swink's

The first run asks, and writes `cassettes/MODULE/TEST.json` beside the test's module; every later
one replays that file, and fails with what differs for a call that it does not hold.
`--cassette-mode` says otherwise for a run (`none` in continuous integration, `all` to record
anew), `@pytest.mark.cassette("name", mode=…, speed=…)` for a test.

Everything else is imported when a test asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from swink_recorder.cassette import Cassette

FOLDER = "cassettes"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--cassette-mode`."""
    parser.getgroup("swink").addoption(
        "--cassette-mode",
        choices=("once", "none", "all"),
        default=None,
        help="What becomes of calls to language models in tests with a cassette: record where "
        "there is no recording (once, the default), never ask (none), record all anew (all).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "cassette(name, /, *, mode='once', speed=0): where the calls of this test are recorded, "
        "when, and how many times faster they are replayed (0: at once)",
    )


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """Answer all calls to language models from a file, which the first run records.

    A test that makes a call which is not recorded fails, even if its program gets over it.
    """
    from swink_recorder.cassette import Cassette

    name, given = _marked(request)
    mode = request.config.getoption("--cassette-mode") or given.get("mode", "once")
    path = request.path.parent / FOLDER / request.path.stem / f"{name}.json"
    with Cassette(path, mode, given.get("speed", 0.0)) as put_in:
        yield put_in
    if put_in.unrecorded:
        pytest.fail("\n".join(dict.fromkeys(put_in.unrecorded)), pytrace=False)


def _marked(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Return the cassette's name and what else the test's marker says."""
    marker = request.node.get_closest_marker("cassette") or pytest.mark.cassette().mark
    owner = f"{request.cls.__name__}." if request.cls else ""
    name = marker.args[0] if marker.args else f"{owner}{request.node.name}".replace("/", "-")
    wrong = len(marker.args) > 1 or any(not isinstance(arg, str) for arg in marker.args)
    if wrong or marker.kwargs.keys() - {"mode", "speed"}:
        raise pytest.UsageError(f"@pytest.mark.cassette takes a name, mode and speed, not {marker}")
    if marker.args and ".." in Path(name).parts:
        raise pytest.UsageError(
            "@pytest.mark.cassette takes a name, mode and speed, and a name without the part `..`, "
            f"which leads out of the folder of cassettes: {name!r}"
        )
    return re.sub(r"[^\w.\-\[\]/]", "-", name.lstrip("/")), dict(marker.kwargs)
