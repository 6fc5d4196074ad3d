"""Compare estimated tokens with those of two tokenizers, by class of text.

    python -m lab.findings.token_classes [PYTHON]

PYTHON is an interpreter with litellm, which brings both tokenizers: OpenAI's cl100k_base and an old
one of Anthropic's. By default it is that of `.venv-peers/litellm`. The texts are pages and modules
of this repository, samples of Python's own tests, and emoji of rich, in pieces of 100
characters.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rich._emoji_codes import EMOJI

from swink_core.vocabulary.tokens import text_tokens

ROOT = Path(__file__).parents[2]

SIZE = 100

PIECES = 200
"""Pieces of a class at most."""

COUNT = """
import json, sys
from importlib.resources import files
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer
home = files("litellm.litellm_core_utils.tokenizers")
import os
os.environ["TIKTOKEN_CACHE_DIR"] = str(home)
openai = tiktoken.get_encoding("cl100k_base")
anthropic = Tokenizer.from_str((home / "anthropic_tokenizer.json").read_text("utf-8"))
print(json.dumps([
    [len(openai.encode(text, disallowed_special=())), len(anthropic.encode(text).ids)]
    for text in json.load(sys.stdin)
]))
"""


def pieces_of(texts: Iterator[str]) -> list[str]:
    """Cut texts into pieces, and draw some of them, the same each time."""
    whole = "\n".join(texts)
    pieces = [whole[at : at + SIZE] for at in range(0, len(whole), SIZE)]
    return random.Random(1).sample(pieces, min(PIECES, len(pieces)))


def classes() -> dict[str, list[str]]:
    """Return the pieces of text of each class."""
    pages = (path.read_text("utf-8") for path in sorted((ROOT / "docs/explanation").glob("*.md")))
    modules = (path.read_text("utf-8") for path in sorted((ROOT / "swink_core").rglob("*.py")))
    folder = Path(sysconfig.get_path("stdlib")) / "test/cjkencodings"
    samples = (
        "".join(each for each in path.read_text("utf-8") if ord(each) > 0x2E7F)
        for path in sorted(folder.glob("*-utf8.txt"))
        if path.name.startswith(("big5-", "cp949-", "euc_jp-", "gb18030-"))
    )
    emoji = random.Random(1).choices(sorted(EMOJI.values()), k=4_000)
    return {
        "Latin": pieces_of(pages),
        "Code": pieces_of(modules),
        "CJK": pieces_of(samples),
        "Emoji": pieces_of(iter(["".join(emoji)])),
    }


def main() -> None:
    """Print, for each class, the ratios of the estimate and how often its bound is passed."""
    python = sys.argv[1] if sys.argv[1:] else str(ROOT / ".venv-peers/litellm/bin/python")
    for name, pieces in classes().items():
        done = subprocess.run(
            [python, "-c", COUNT],
            input=json.dumps(pieces),
            capture_output=True,
            text=True,
            check=True,
        )
        counts = [count for pair in json.loads(done.stdout.splitlines()[-1]) for count in pair]
        estimates = [text_tokens(piece) for piece in pieces for _ in range(2)]
        ratios = sorted(e.tokens / count for e, count in zip(estimates, counts, strict=True))
        passed = sum(e.most < count for e, count in zip(estimates, counts, strict=True))
        low, high = ratios[len(ratios) // 20], ratios[-1 - len(ratios) // 20]
        print(
            f"{name}: {len(pieces)} pieces, estimate / tokens: median {median(ratios):.2f}, "
            f"5 % {low:.2f}, 95 % {high:.2f}; bound passed by {passed / len(ratios):.1%}"
        )


if __name__ == "__main__":
    main()
