"""The pytest plugin of swink-recorder, with the fixture `cassette`.

    async def test_it(cassette):
        answer = await my_program()         # calls a model through any swink client

The first run makes the calls, and writes `cassettes/MODULE/TEST.json` beside the test's module;
later runs replay that file. If a test makes a call that the file does not contain, the test fails
and shows the difference. `--cassette-mode` changes the mode of a run (`none` in continuous
integration, `all` to record again). `@pytest.mark.cassette("name", mode=…, speed=…)` changes the
mode of a single test.

Other modules are imported only when a test uses the fixture.
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
        help="How tests with a cassette handle calls to language models: record missing "
        "recordings (once, the default), never send a request (none), record all again "
        "(all).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "cassette(name, /, *, mode='once', speed=0): the file that records the calls of this "
        "test, the mode, and the playback speed (0: at once)",
    )


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """Answer all calls to language models from a file, which the first run records.

    A test that makes an unrecorded call fails, even if its program handles the error.
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
    """Return the cassette's name and the other arguments of the test's marker."""
    marker = request.node.get_closest_marker("cassette") or pytest.mark.cassette().mark
    owner = f"{request.cls.__name__}." if request.cls else ""
    name = marker.args[0] if marker.args else f"{owner}{request.node.name}".replace("/", "-")
    wrong = len(marker.args) > 1 or any(not isinstance(arg, str) for arg in marker.args)
    if wrong or marker.kwargs.keys() - {"mode", "speed"}:
        raise pytest.UsageError(f"@pytest.mark.cassette takes a name, mode and speed, not {marker}")
    if marker.args and ".." in Path(name).parts:
        raise pytest.UsageError(
            "@pytest.mark.cassette takes a name, mode and speed; the name must not contain "
            f"`..`, which leaves the folder of cassettes: {name!r}"
        )
    return re.sub(r"[^\w.\-\[\]/]", "-", name.lstrip("/")), dict(marker.kwargs)
