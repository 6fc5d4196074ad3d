"""`swink demo`: recordings of installed providers, replayed to their own adapters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from screen import seen

from swink_test_helpers.installed import LINES_PROVIDER, catalogue, install, record

TEXT = "the sky is blue because short waves are scattered more than long ones"


def said(*words: str) -> list[dict[str, Any]]:
    """The lines of an answer."""
    return [*({"say": f"{word} "} for word in words), {"stop": "stop", "heard": 12, "said": 14}]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Providers with recordings, with another's, with a broken one, without any, and broken."""
    folder = tmp_path / "site"
    package = folder / "lines_provider" / "recordings"
    names = ("alpha", "bravo")
    install(
        folder,
        "swink-provider-lines",
        {"swink.providers": dict.fromkeys(names, "lines_provider:LinesProvider")},
        {
            "lines_provider/__init__.py": LINES_PROVIDER,
            "lines_provider/models.toml": catalogue(*names),
        },
    )
    record(package / "answer", "alpha", [{"think": "Hm. "}, *said(*TEXT.split())], 0.5)
    record(package / "short", "alpha", said("Blue."), 0.1)
    record(package / "cut", "alpha", [{"say": "Half"}], 0.1)
    failed = {"content": [], "stop_reason": "error", "error_kind": "network"}
    message = {"role": "assistant", **failed, "error_message": "cut"}
    (package / "cut" / "message.json").write_text(json.dumps(message))
    _install_one(folder, "corrupt", LINES_PROVIDER, "corrupt", broken="{")
    _install_one(folder, "broken", "raise RuntimeError('no such luck')", "broken")
    _install_one(folder, "silent", LINES_PROVIDER)
    return folder


def _install_one(
    folder: Path, name: str, module: str, recorded: str | None = None, broken: str | None = None
) -> None:
    install(
        folder,
        f"swink-provider-{name}",
        {"swink.providers": {name: f"{name}_provider:LinesProvider"}},
        {f"{name}_provider/__init__.py": module, f"{name}_provider/models.toml": catalogue(name)},
    )
    if recorded is not None:
        recording = folder / f"{name}_provider" / "recordings" / "answer"
        record(recording, recorded, said("x"), 0.1)
        if broken is not None:
            (recording / "recording.json").write_text(broken)


def rows(text: str) -> list[str]:
    """Lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def only(*names: str) -> dict[str, str]:
    """The variable that lets nothing else take part."""
    return {"SWINK_PLUGINS": ",".join(names)}


def test_each_provider_streams_its_recording_and_gets_a_row(swink: Any, site: Path) -> None:
    done = swink("demo", PYTHONPATH=str(site), **only("alpha", "echo"))
    assert done.returncode == 0
    lines = rows(done.stdout)
    assert "Hm." in lines
    assert TEXT in lines
    table = lines[lines.index("PROVIDER WIRE FORMAT EVENTS FIRST TOKEN IN/OUT STOP COST") + 1 :]
    alpha, echo = table
    assert alpha.startswith("alpha lines 20 ")
    assert alpha.endswith(" 12/14 stop $0.00025")
    assert echo.startswith("echo none ")


def test_the_recorded_timing_is_kept_and_can_be_sped_up(swink: Any, site: Path) -> None:
    def first_token(*arguments: str) -> int:
        done = swink("demo", *arguments, PYTHONPATH=str(site), **only("alpha"))
        row = next(line for line in rows(done.stdout) if line.startswith("alpha lines"))
        return int(row.split()[3])

    recording = site / "lines_provider" / "recordings" / "answer" / "recording.json"
    head = json.loads(recording.read_text())
    response = head["legs"][0]["response"]
    response["chunks"] = [[0.4 + at, size] for at, size in response["chunks"]]
    recording.write_text(json.dumps(head))
    assert first_token() >= 400
    assert first_token("--speed", "100") < 400


def test_a_provider_without_recordings_borrows_those_of_its_wire_format(
    swink: Any, site: Path
) -> None:
    done = swink("demo", "--speed", "50", PYTHONPATH=str(site), **only("alpha", "bravo"))
    assert done.returncode == 0
    bravo = next(line for line in rows(done.stdout) if line.startswith("bravo lines"))
    assert bravo.endswith(" 12/14 stop $0.00025")
    assert "bravo: replayed from alpha, which has the same wire format" in done.stderr


def test_a_provider_without_requests_gets_the_recorded_bytes(swink: Any, site: Path) -> None:
    of_a_process = LINES_PROVIDER.replace('path = "/talk"', "speaks_http = False")
    _install_one(site, "child", of_a_process, "child")
    record(site / "child_provider" / "recordings" / "more", "child", said("more", "words"), 0.1)
    done = swink("demo", "child", PYTHONPATH=str(site))
    assert done.returncode == 0
    lines = rows(done.stdout)
    assert lines[lines.index("== child answer (lines) ==") + 1] == "x"
    assert lines[lines.index("== child more (lines) ==") + 1] == "more words"


def test_all_recordings_of_a_named_provider_are_shown(swink: Any, site: Path) -> None:
    done = swink("demo", "alpha", "--speed", "50", PYTHONPATH=str(site))
    assert done.returncode == 0  # a failure that was recorded is none of ours
    lines = rows(done.stdout)
    assert any(line.startswith("alpha answer lines 20 ") for line in lines)
    assert any(line.startswith("alpha short lines ") for line in lines)
    assert any(line.startswith("alpha cut lines ") and " network " in line for line in lines)


def test_a_broken_plugin_is_a_row_with_the_reason(swink: Any, site: Path) -> None:
    done = swink("demo", PYTHONPATH=str(site), **only("alpha", "broken", "corrupt", "silent"))
    assert done.returncode == 1
    lines = rows(done.stdout)
    assert any(line.startswith("alpha lines 20 ") for line in lines)
    assert "broken lines - - - broken -" in lines
    assert "corrupt - - - - broken -" in lines
    assert 'broken: provider "broken" (swink-provider-broken 1.0) cannot be loaded' in done.stderr
    assert "corrupt: " in done.stderr
    assert "recording.json" in done.stderr
    assert "nothing to replay: silent" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_with_nothing_installed_it_says_what_to_do(swink: Any) -> None:
    done = swink("demo", **only("nobody"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install swink-provider-" in done.stderr


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 12)], ids=str)
def test_streams_are_seen_side_by_side_at_any_size(
    start: Any, site: Path, size: tuple[int, int]
) -> None:
    running = start(
        *("demo", "--speed", "5"), size=size, PYTHONPATH=str(site), **only("alpha", "bravo", "echo")
    )
    assert running.finish() == 0
    lines = seen(running.output, size[0])
    assert all(len(line) <= size[0] for line in lines)
    titles = next(line for line in lines if "alpha" in line)
    assert ("bravo" in titles) == (size[0] > 40)
    last = [" ".join(line.split()) for line in lines if " stop " in line]
    if size[0] > 40:
        assert len(last) == 3
        assert last[0].startswith("alpha lines 20 ")


def test_ctrl_c_leaves_the_demo(start: Any, site: Path) -> None:
    running = start("demo", "--speed", "0.1", PYTHONPATH=str(site), **only("alpha"))
    running.wait_for("== alpha (lines) ==")
    running.interrupt()
    assert running.finish() == 130
    assert "Traceback" not in running.stderr
