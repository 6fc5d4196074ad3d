"""The work for a piece of an answer does not depend on how much came before.

`make fuzz` measures answers of 8 MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from swink_cli.markdown import render
from swink_cli.markdown_tokens import settled
from swink_test_helpers import growing_work, work_per_read
from swink_test_helpers.work_per_read import FLAT, PARTS, Part, growth, growth_of_end

SIZE = 320 * 1024


@pytest.mark.parametrize("name", PARTS)
async def test_the_work_for_each_read_is_flat(name: str) -> None:
    assert await growth(name, SIZE) < FLAT


@pytest.mark.parametrize("name", PARTS)
async def test_the_work_at_the_end_is_linear(name: str) -> None:
    assert await growth_of_end(name, SIZE) < growing_work.LINEAR


async def test_work_in_proportion_to_what_came_before_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = ""

    async def read(client: work_per_read.swink.Client) -> None:
        nonlocal text
        text = ""
        async with client.stream(work_per_read.MODEL, "Hi") as stream:
            async for piece in stream.text:
                text += piece
                for mark in "abcdefghijklmnopqrst":
                    text.count(mark * 2)

    monkeypatch.setitem(PARTS, "quadratic", Part("text", read))
    assert await growth("quadratic", SIZE // 2) > FLAT


MARKDOWN = {
    "paragraph": "word and more words ",
    "lines": "word and more words\n",
    "one word": "x",
    "code": "```python\nx = 1  # and so on\n",
    "list": "- an item of a list\n",
    "quotation": "> a line of a quotation\n",
    "table": "| a | b |\n|---|---|\n| one | two |\n",
    "marks": "**a** _b_ `c` [d](e) ",
    "open marks": "*a _b ",
    "brackets": "[",
    "newlines": "\n",
    "HTML": "<a><b ",
    "entities": "&amp;&#x41; ",
}


@pytest.mark.parametrize("text", MARKDOWN.values(), ids=MARKDOWN)
def test_markdown_is_rendered_in_proportion_to_its_length(text: str) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80, height=40)

    def of_size(size: int) -> Callable[[], object]:
        source = text * (size // len(text))
        return lambda: (settled(source), render(source, console))

    of_size(100)()  # imports
    assert growing_work.growth(of_size, 500) < growing_work.LINEAR
