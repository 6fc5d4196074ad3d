"""The command that downloads a model before a call needs it."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swink_provider_local.__main__ import main
from swink_recorder.loopback import Exchange, LoopbackServer

CONTENT = b"GGUF" * 1000


class OneFile(LoopbackServer):
    async def respond(self, exchange: Exchange) -> None:
        if not exchange.path.endswith(".gguf"):
            await exchange.start(404)
        else:
            digest = hashlib.sha256(CONTENT).hexdigest()
            headers = {"X-Linked-Etag": digest, "X-Linked-Size": str(len(CONTENT))}
            await exchange.start(200, headers)
            if exchange.method != "HEAD":
                await exchange.write(CONTENT)
        if exchange.method != "HEAD":
            await exchange.end()
        exchange.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OneFile]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("SWINK_LOCAL_CACHE", str(tmp_path))
    with OneFile() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


PULLS = [
    ("a known model", "smollm3-3b", "unsloth/SmolLM3-3B-GGUF/SmolLM3-3B-Q4_K_M.gguf"),
    ("as calls name it", "local/smollm3-3b", "unsloth/SmolLM3-3B-GGUF/SmolLM3-3B-Q4_K_M.gguf"),
    ("a file of the hub", "acme/tiny:a/b.gguf", "acme/tiny/a/b.gguf"),
]


@pytest.mark.parametrize(
    ("model", "path"), [row[1:] for row in PULLS], ids=[row[0] for row in PULLS]
)
def test_a_model_is_downloaded_and_its_path_printed(
    server: OneFile, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, path: str
) -> None:
    assert main(["pull", model]) == 0
    assert capsys.readouterr() == (f"{tmp_path / path}\n", "")
    assert (tmp_path / path).read_bytes() == CONTENT
    assert server.exchanges[-1].path.startswith("/" + "/".join(path.split("/")[:2]))


def test_a_terminal_sees_a_bar(server: OneFile, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["pull", "smollm3-3b"]) == 0
    assert terminal.getvalue().startswith("\rSmolLM3-3B-Q4_K_M.gguf [")
    assert terminal.getvalue().endswith("100 % of 0.0 MB\n")


def test_the_default_is_what_the_environment_names(
    server: OneFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWINK_LOCAL_MODEL", "acme/mine:mine.gguf")
    assert main(["pull"]) == 0
    assert (tmp_path / "acme" / "mine" / "mine.gguf").is_file()


def test_a_failure_is_a_message_and_an_exit_code(
    server: OneFile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["pull", "smollm3-3b"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "HF_HUB_OFFLINE" in err
    assert "Traceback" not in err


def test_the_list_marks_what_is_here(server: OneFile, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pull", "qwen3-4b"])
    capsys.readouterr()
    assert main(["list"]) == 0
    marked = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line[0] == "*"]
    assert marked == ["qwen3-4b"]
