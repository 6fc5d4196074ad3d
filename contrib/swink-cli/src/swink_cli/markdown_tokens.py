"""Parse Markdown into tokens of markdown-it-py, without dropping content.

The module `markdown` renders every token. The parser keeps content that CommonMark drops:

* `definition`: a link definition stays in its place and is not resolved, because it may arrive when
  the paragraph that uses it is already on the screen.
* `table`: CommonMark drops the cells of a row beyond those of the heading.
* `too deep`: markdown-it-py drops blocks that are nested deeper than `maxNesting`.
* emphasis: In `*[a*][b]`, the asterisks mark emphasis if `b` is not defined, and are text if `b` is
  defined. Since the definition may arrive later, marks are treated as text unless they mark
  emphasis in both cases.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block import table as parse_table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.balance_pairs import processDelimiters
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

__all__ = ["parsed", "settled"]

DEEPEST = 40
"""Blocks that are nested deeper than this appear as source text.

A quotation adds one level, a list two.
"""


class _Parser(MarkdownIt):
    """A parser for CommonMark and tables that keeps the link targets of the source unchanged."""

    def __init__(self) -> None:
        options = {"maxNesting": DEEPEST + 2, "inline_definitions": True}
        super().__init__("commonmark", options)
        self.block.ruler.before("table", "too deep", _too_deep)
        self.block.ruler.at("table", _table_with_all_cells, {"alt": ["paragraph", "reference"]})
        self.core.ruler.after("block", "unresolved", _forget_definitions)
        self.inline.ruler2.at("balance_pairs", _pairs_in_any_case)
        self.enable("table")

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link


def _too_deep(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.level < DEEPEST or silent:
        return False
    token = state.push("source", "", 0)
    token.content = state.getLines(start, end, state.blkIndent, False)
    token.map = [start, end]
    state.line = end
    return True


def _table_with_all_cells(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    begin = len(state.tokens)
    if not parse_table(state, start, end, silent):
        return False
    parsed = state.tokens[begin:]
    del state.tokens[begin:]
    cells = line = 0
    for token in parsed:
        if token.type == "tr_open" and token.map:
            cells, line = 0, token.map[0]
        elif token.type == "inline":
            cells += 1
        elif token.type == "tr_close":
            for content in _cells(state, line)[cells:]:
                extra = Token("inline", "", 0, content=content, level=token.level + 1, children=[])
                state.tokens.append(extra)
        state.tokens.append(token)
    return True


def _cells(state: StateBlock, line: int) -> list[str]:
    source = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip()
    cells = re.split(r"(?<!\\)\|", source)
    if cells and not cells[0]:
        del cells[0]
    if cells and not cells[-1]:
        del cells[-1]
    return [cell.replace(r"\|", "|").strip() for cell in cells]


def _forget_definitions(state: StateCore) -> None:
    state.env.pop("references", None)


def _pairs_in_any_case(state: StateInline) -> None:
    """Pair those emphasis marks that form the same pairs whether or not brackets are links."""
    scopes = _scopes(state.tokens)
    inside_links = [meta["delimiters"] for meta in state.tokens_meta if meta]
    for delimiters in (state.delimiters, *inside_links):
        without_links = _ends(state, delimiters, [0] * len(delimiters))
        with_links = _ends(state, delimiters, [scopes[each.token] for each in delimiters])
        for each, end, other in zip(delimiters, without_links, with_links, strict=True):
            each.end = end if end == other else -1


def _scopes(tokens: Sequence[Token]) -> list[int]:
    """Return, for each token, the number of the opening bracket around it; 0 for none."""
    brackets = [
        (at, bracket)
        for at, token in enumerate(tokens)
        if token.type == "text"
        for bracket in token.content
        if bracket in "[]"
    ]
    waiting: list[int] = []
    closing: dict[int, int] = {}
    for number, (_, bracket) in enumerate(brackets, 1):
        if bracket == "[":
            waiting.append(number)
        elif waiting:
            closing[number] = waiting.pop()
    opening = {*closing.values()}
    scopes = []
    around = [0]
    next_number = 1
    for at in range(len(tokens)):
        scopes.append(around[-1])
        while next_number <= len(brackets) and brackets[next_number - 1][0] == at:
            if next_number in opening:
                around.append(next_number)
            elif next_number in closing:
                around.pop()
            next_number += 1
    return scopes


def _ends(state: StateInline, delimiters: Sequence[Delimiter], scopes: Sequence[int]) -> list[int]:
    """Return the index of the closing mark for each opening mark in the same scope; -1 for none."""
    ends = [-1] * len(delimiters)
    places_of: dict[int, list[int]] = {}
    for at, scope in enumerate(scopes):
        places_of.setdefault(scope, []).append(at)
    for places in places_of.values():
        copies = [copy(delimiters[at]) for at in places]
        processDelimiters(state, copies)
        for at, each in zip(places, copies, strict=True):
            ends[at] = -1 if each.end < 0 else places[each.end]
    return ends


_parser = _Parser()


def parsed(text: str) -> Sequence[Token]:
    """Return the tokens of printable Markdown text."""
    return _parser.parse(text)


_NEW_BLOCK = re.compile(r"[^\s\d*+-]|[*+-]\S")
"""Matches the first characters of a line after a blank line if the line cannot continue a list."""


def settled(text: str) -> int:
    """Return the length of the part of a text in which no Markdown block can change any more.

    `text` is printable. The part contains all blocks except the last one. The next piece of text
    can still change the last block: it may complete a line, or add a title to a definition.
    """
    *lines, last = text.split("\n")
    if lines and not lines[-1].strip(" \t") and _NEW_BLOCK.match(last):
        lines.append(last)
    tokens: list[Token] = []
    _parser.block.parse("\n".join([*lines, ""]), _parser, {}, tokens)
    starts = [0]
    previous = ""
    for token in tokens:
        if token.level == 0 and token.map:
            start = token.map[0]
            if previous != "definition" or not lines[start - 1].strip(" \t"):
                starts.append(start)
            previous = token.type
    return sum(len(line) + 1 for line in lines[: starts[-1]])
