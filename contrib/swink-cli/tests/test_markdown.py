"""The terminal shows every character of an answer that is not Markdown syntax."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console
from screen import seen

from swink_cli import markdown
from swink_cli.live_markdown import LiveMarkdown
from swink_cli.markdown import render
from swink_cli.markdown_tokens import settled
from swink_cli.terminal import printable

WIDTHS = (40, 80, 200)


def lines_of(text: str, width: int = 80) -> list[str]:
    """Render text, and return the lines without styles."""
    lines = render(text, Console(width=width, file=io.StringIO()))
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def letters(text: str) -> str:
    """Return the letters and digits of a text."""
    return "".join(filter(str.isalnum, text))


def visible(text: str) -> str:
    """Return a text without white space."""
    return "".join(text.split())


def is_within(wanted: str, text: str) -> bool:
    """Tell whether a text has these characters in this order, among others."""
    rest = iter(text)
    return all(character in rest for character in wanted)


# the text, and what can no longer change
SETTLED = [
    ("", ""),
    ("one", "one"),
    ("one\n\ntwo", "two"),
    ("one\n\n", "one\n\n"),
    ("# t\ntext\n", "text\n"),
    ("# t\ntext", "# t\ntext"),
    ("one\n- a\n- b", "- a\n- b"),
    ("- a\n\n  more of a", "- a\n\n  more of a"),
    ("1. a\n\n2", "1. a\n\n2"),  # it may become the second item
    ("- a\n\n**b", "**b"),
    ("one\n\n```\ncode\n\nstill", "```\ncode\n\nstill"),
    ("one\n\n| a |\n|---|\n| 1 |", "| a |\n|---|\n| 1 |"),
    ("> a\nlazy", "> a\nlazy"),
    ("[a]: /b\n'title\n", "[a]: /b\n'title\n"),
    ("[a]: /b\n\n'title\n", "'title\n"),
    ("one\r\n\r\ntwo", "two"),
    ("one\u2028still one\x85and\n\ntwo", "two"),  # lines to Python, and not to Markdown
]


@pytest.mark.parametrize(("text", "expected"), SETTLED)
def test_blocks_are_settled_that_more_text_cannot_change(text: str, expected: str) -> None:
    text = printable(text)
    assert text[settled(text) :] == printable(expected)


TABLE = """\
| Left | Right | Both |
|:--|--:|:-:|
| a | b | c | surplus | `x\\|y` |
| short |"""

CONSTRUCTS: dict[str, tuple[str, list[str]]] = {
    "emphasis": ("a *b* __c__ ***d*** e_f_g", ["a b c d e_f_g"]),
    "code span": ("run `rm  -rf *` now", ["run rm  -rf * now"]),
    "escapes": (r"\*a\* \x \\", [r"*a* \x \ ".rstrip()]),
    "strikethrough": ("do ~~not~~ run", ["do ~~not~~ run"]),
    "line ends": ("one\ntwo  \nthree\\\nfour", ["one", "two", "three", "four"]),
    "ATX headings": ("# One #\n###### Six", ["One", "", "Six"]),
    "setext heading": ("One\nmore\n===\n\nTwo\n---", ["One", "more", "", "Two"]),
    "numbers": ("7. a\n7. b\n\n003) c", ["7. a", "7. b", "", "003) c"]),
    "numbers of two widths": ("9. a\n10. b", [" 9. a", "10. b"]),
    "nested list": ("- a\n  1. b\n\n     c\n- d", ["• a", "  1. b", "", "     c", "• d"]),
    "tasks": ("- [ ] a\n- [x] b", ["• [ ] a", "• [x] b"]),
    "empty items": ("-\n- a\n-", ["•", "• a", "•"]),
    "quotation": ("> a\nb\n>\n> > c", ["▌ a", "▌ b", "▌", "▌ ▌ c"]),
    "empty quotation": (">", ["▌"]),
    "rule": ("* * *", ["─" * 80]),
    "code": ("```\na  b\n\n\tc\n```", ["a  b", "", "    c"]),
    "code with an info string": ("~~~py a=1 &amp;\nx\n~~~", ["~~~py a=1 &amp;", "x"]),
    "code of an unknown language": ("```KEYWORD\nx\n```", ["```KEYWORD", "x"]),
    "code without an end": ("```\nx", ["x"]),
    "indented code": ("    x\n\n      y", ["x", "", "  y"]),
    "empty code": ("```\n```\na", ["a"]),
    "HTML block": ("<div id=a>\n*b*\n</div>", ["<div id=a>", "*b*", "</div>"]),
    "thoughts in tags": ("<think>\n*a*\n</think>\n\nb", ["<think>", "*a*", "</think>", "", "b"]),
    "inline HTML": ("a <b class='*x*'>c</b>", ["a <b class='*x*'>c</b>"]),
    "type argument": ("HashMap<String, Vec<u8>>", ["HashMap<String, Vec<u8>>"]),
    "placeholder": ("git push <remote> main", ["git push <remote> main"]),
    "comparison": ("a < b && b > c", ["a < b && b > c"]),
    "comment": ("a <!-- *b* --> c\n\n<!-- d -->", ["a <!-- *b* --> c", "", "<!-- d -->"]),
    "processing instruction": ("<?php *a* ?>\n\nb <?c?>", ["<?php *a* ?>", "", "b <?c?>"]),
    "declaration": ("<!DOCTYPE *a*>\n\nb <!C d>", ["<!DOCTYPE *a*>", "", "b <!C d>"]),
    "CDATA": ("<![CDATA[*a*]]>\n\nb <![CDATA[c]]>", ["<![CDATA[*a*]]>", "", "b <![CDATA[c]]>"]),
    "script": ("<script>\n\n*a*\n</script>", ["<script>", "", "*a*", "</script>"]),
    "link": ("[a *b*](http://c.d/e_f_g)", ["a b (http://c.d/e_f_g)"]),
    "link with a title": ("[a](/b 'c \"d\"')", ['a (/b "c "d"")']),
    "link that shows its target": ("[http://a.b](http://a.b)", ["http://a.b"]),
    "link that shows another target": ("[http://a.b](http://c.d)", ["http://a.b (http://c.d)"]),
    "link without a target": ("[a]()", ["a ()"]),
    "link without a text": ("[](/a)", [" (/a)"]),
    "link with another script": ("[a](http://аpple.com)", ["a (http://аpple.com)"]),
    "forbidden target": ("[a](javascript:b)", ["[a](javascript:b)"]),
    "autolinks": ("<http://a.b/c> <d@e.f>", ["http://a.b/c d@e.f"]),
    "image": ("![a *b*](/c 'd')", ['![a b](/c "d")']),
    "image in a link": ("[![a](/b)](/c)", ["![a](/b) (/c)"]),
    "link definition": (
        "[a]: </b *c*> 'd e'\n[f]: /g\n\nh", ['[a]: /b *c* "d e"', "[f]: /g", "", "h"],
    ),
    "second definition": ("[a]: /b\n\n[A]: /c", ["[a]: /b", "", "[A]: /c"]),
    "reference": ("[a][b] [b] [c][]\n\n[b]: /d", ["[a][b] [b] [c][]", "", "[b]: /d"]),
    "emphasis across a reference": (
        "*[foo*][ref] **a [b** c] *[d]* [*e*][f]\n\n[ref]: /u",
        ["*[foo*][ref] **a [b** c] [d] [e][f]", "", "[ref]: /u"],
    ),
    "definition in a quotation": ("> [a]: /b\n> c", ["▌ [a]: /b", "▌", "▌ c"]),
    "footnote": ("a[^1]\n\n[^1]: b c", ["a[^1]", "", "[^1]: b c"]),
    "entities": ("&lt;a&gt; &copy; &nosuch; &#x41;", ["<a> © &nosuch; A"]),
    "hidden entities": ("a&#x202e;b&shy;c&#27;d", ["a\\u202eb\\xadc\ufffdd"]),
    "table": (
        TABLE,
        [
            "Left  │ Right │ Both │         │",
            "━━━━━━┿━━━━━━━┿━━━━━━┿━━━━━━━━━┿━━━━",
            "a     │     b │  c   │ surplus │ x|y",
            "short │       │      │         │",
        ],
    ),
    "wide characters": (
        "| a | b |\n|---|---|\n| 漢字 | c |\n| 👩\u200d💻e\u0301 | d |",
        ["a    │ b", "━━━━━┿━━", "漢字 │ c", "👩\u200d💻e\u0301  │ d"],
    ),
    "tabs": ("a\tb\n- c\td", ["a   b", "", "• c   d"]),
    "controls": ("a\x1b[2J\x00b\rc\u2066", [r"a\x1b[2J\x00b\x0dc\u2066"]),
    "nothing": (" \n\n", []),
}  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), CONSTRUCTS.values(), ids=CONSTRUCTS)
def test_each_construct_is_shown(source: str, expected: list[str]) -> None:
    assert lines_of(source) == expected


# -- properties ------------------------------------------------------------------------------------

FRAGMENTS = (
    *"abc012 \n\n\n\t*_`~#>-+=[]()!<>\\:\"'/.,;?@{}^$%",
    "\n\n", "\n- ", "\n  - ", "\n1. ", "\n10) ", "\n> ", "\n    ", "\n```", "\n~~~ py", "\n# ",
    "\n---\n", "\n===\n", "](", "](/a ", "[b]: /c", "![", "<d>", "</e>", "<div>", "<!--", "-->",
    "<?", "?>", "<![CDATA[", "]]>", "<script>", "</script>", "<http://f.g>", "<h@i.j>",
    "\\\n", "  \n", "é", "漢", "👩\u200d💻",
)  # fmt: skip
"""Pieces of hostile answers. Other tests cover entities and tables."""

hostile = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)
widths = st.sampled_from(WIDTHS)

SAME = re.compile(r"\[([^\[\]]*)\]\(\1\)|\[([^\[\]]*)\]\(<\2>\)")
"""Links whose text is their target: the screen shows it once."""


@given(hostile, widths)
@example("[a](a) [b](<b>)", 80)
def test_letters_and_digits_of_hostile_answers_are_shown_in_order(text: str, width: int) -> None:
    shown = "".join(lines_of(text, width))
    assert is_within(letters(SAME.sub(r"\1\2", text)), letters(shown))


class _Content(HTMLParser):
    """The text of HTML, and the attributes that a reader of the answer needs."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self._targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "img":
            self.text += f"{values['alt']} {values['src']} {values.get('title', '')}"
        elif tag == "a":
            title = values.get("title", "")
            self._targets.append(f"{values['href']} {title}")
            self._begin = len(self.text)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            target = self._targets.pop().strip()
            if target.removeprefix("mailto:") != self.text[self._begin :]:
                self.text += target


def content(text: str) -> str:
    """Return the text and targets of markdown-it-py's HTML; HTML in the answer is text."""
    parser = MarkdownIt("commonmark")
    parser.normalizeLink = parser.normalizeLinkText = str  # type: ignore[method-assign, assignment]
    for kind in ("html_inline", "html_block"):
        parser.add_render_rule(kind, lambda self, tokens, at, *rest: escape(tokens[at].content))
    reader = _Content()
    reader.feed(parser.render(text))
    reader.close()
    return reader.text


@given(hostile.filter(lambda text: "]:" not in text), widths)
@example("*a [b*] c*", 80)
def test_all_that_html_shows_is_on_the_screen_in_order(text: str, width: int) -> None:
    """Punctuation too; markdown-it-py's HTML has no list numbers, definitions and info strings."""
    shown = visible("".join(lines_of(text, width)))
    assert is_within(visible(content(text)), shown)


@given(hostile.filter(lambda text: "]:" not in text), widths)
@example("*[foo*][b]", 80)
def test_marks_that_a_reference_makes_text_are_on_the_screen(text: str, width: int) -> None:
    defined = f"{text}\n\n[b]: /c"
    marks = re.sub(r"[^*_]", "", content(defined))
    assert is_within(marks, re.sub(r"[^*_]", "", "".join(lines_of(defined, width))))


@given(hostile | st.text(max_size=60), st.sampled_from((4, 17, *WIDTHS)))
def test_every_line_fits(text: str, width: int) -> None:
    assert all(cell_len(line) <= width for line in lines_of(text, width))


@given(st.text(max_size=40))
def test_arbitrary_text_is_shown_without_controls(text: str) -> None:
    shown = "".join(lines_of(text))
    assert printable(shown) == shown
    if "&" not in text:
        assert is_within(letters(text), shown)


words = st.text("abc漢字é👩\u200d💻-\\`*<>", min_size=1, max_size=30).filter(lambda s: s.strip())
cells = st.lists(words, min_size=1, max_size=4).map(" ".join)


@given(st.lists(st.lists(cells, min_size=1, max_size=9), min_size=1, max_size=4), widths)
def test_every_cell_of_a_table_is_whole(rows: list[list[str]], width: int) -> None:
    code = [[f"`` {cell.replace('`', '')} ``" for cell in row] for row in rows]
    head = [f"h{number}" for number in range(len(rows[0]))]
    text = "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *code])
    shown = lines_of(text, width)
    assert all(cell_len(line) <= width for line in shown)
    wanted = [[printable(cell.replace("`", "")) for cell in row] for row in rows]
    every = sorted(visible("".join(cell for row in wanted for cell in row)))
    assert is_within("".join(every), "".join(sorted(visible("".join(shown)))))
    if "┿" in "".join(shown):
        body = [line.split("│") for line in shown if not set(line) <= set("─┼━┿")]
        for column in range(max(map(len, body))):
            in_column = "".join(line[column] for line in body if len(line) > column)
            of_rows = "".join(row[column] for row in wanted if len(row) > column)
            assert is_within(visible(of_rows), visible(in_column))


@pytest.mark.parametrize(
    "opening",
    ["> ", "- ", "1. ", "*", "**a ", "[", "![", "`", "<", "<a>", "[a](", "&", "\\", "|a\n|-\n"],
)
def test_repeated_openings_lose_nothing_and_exhaust_no_stack(opening: str) -> None:
    shown = "".join(lines_of(opening * 1000 + "KEYWORD"))
    assert "KEYWORD" in visible(shown)


# -- streaming -------------------------------------------------------------------------------------


async def drawn(pieces: list[str], draw_at: set[int], width: int) -> list[str]:
    """Write pieces, draw after some, and return the lines that are left on the screen."""
    file = io.StringIO()
    console = Console(file=file, width=width, height=500, force_terminal=True)
    live = LiveMarkdown(console)
    for number, piece in enumerate(pieces):
        live.write(piece)
        if number in draw_at:
            live._draw()
    live.close()
    output = file.getvalue().replace("\n", "\r\n")  # as the terminal's driver does
    lines = seen(output.encode(), 10_000)
    while lines and not lines[-1]:
        del lines[-1]
    return lines


def divided(text: str) -> st.SearchStrategy[list[str]]:
    """Divide a text into pieces."""
    places = st.lists(st.integers(0, len(text)), max_size=8).map(sorted)
    return places.map(
        lambda at: [text[i:j] for i, j in zip([0, *at], [*at, len(text)], strict=True)]
    )


constructs = st.sampled_from([source for source, _ in CONSTRUCTS.values()])


@given(
    (hostile | constructs).flatmap(divided),
    st.sets(st.integers(0, 8)),
    widths,
)
@example(["1. a\n\n2", ". b\n"], {0}, 80)
@example(["[a]: /b\n'ti", "tle'\n"], {0}, 80)
@example(["a\r", "\n\r\nb ❤", "\ufe0f"], {0, 1}, 80)
@example(["a\n", "b|c\n--|-", "x"], {0, 1}, 80)
def test_a_streamed_answer_ends_as_the_whole_one(
    pieces: list[str], draw_at: set[int], width: int
) -> None:
    left = asyncio.run(drawn(pieces, draw_at, width))
    whole = lines_of("".join(pieces), width)
    assert left == whole


def paragraphs() -> Iterator[str]:
    for number in range(300):
        yield f"Paragraph {number} "
        yield "has *some* words.\n\n"


def test_settled_blocks_are_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn after every delta, the characters rendered grow with the answer, not its square."""
    rendered = 0

    def counted(text: str, console: Console) -> object:
        nonlocal rendered
        rendered += len(text)
        return render(text, console)

    monkeypatch.setattr(markdown, "render", counted)
    pieces = list(paragraphs())
    asyncio.run(drawn(pieces, set(range(len(pieces))), 80))
    assert rendered < 4 * len("".join(pieces))
