"""Render Markdown as lines of a terminal, without dropping content.

Tokens from `markdown_tokens` are converted to lines of segments (pieces of text with a style).
HTML, and tokens of unknown kinds, are rendered as their source text. A link is rendered as its
text, followed by its target if the two differ. A code block includes its opening line if that line
has an info string. Lists keep the numbers of the source, and line breaks are kept. Control
characters are shown as escapes (`terminal.printable`), including those written as HTML entities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from markdown_it.token import Token
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax

from swink_cli.markdown_tokens import parsed
from swink_cli.terminal import printable
from swink_cli.wrapping import breaks, folds

__all__ = ["Line", "joined", "render"]

LEAST = 16
"""The minimum width of nested text; below it, the text is not indented."""
LEAST_CELL = 8
"""The minimum width of a table column; below it, the rows are printed as text."""
TAB = 4
"""The number of columns between tab stops."""

Line: TypeAlias = list[Segment]

PLAIN = Style()
DIM = Style(dim=True)
MARKER = Style(bold=True)
QUOTED = Style(color="magenta")
NUMBER = Style(color="cyan")
CODE = Style(bold=True, color="cyan", bgcolor="black")
TARGET = Style(color="blue", underline=True)
HEADINGS = {
    "h1": Style(bold=True, underline=True),
    "h2": Style(bold=True, color="magenta", underline=True),
    "h3": Style(bold=True, color="magenta"),
    "h4": Style(italic=True, color="magenta"),
    "h5": Style(italic=True),
    "h6": Style(italic=True, dim=True),
}
SPANS = {"em": Style(italic=True), "strong": Style(bold=True), "link": Style(color="bright_blue")}

# -- blocks ----------------------------------------------------------------------------------------


def render(text: str, console: Console) -> list[Line]:
    """Render Markdown as lines that fit the console, without line ends or trailing spaces."""
    return _Renderer(console).blocks(parsed(printable(text)), console.width)


class _Renderer:
    def __init__(self, console: Console) -> None:
        self._console = console

    def blocks(self, tokens: Sequence[Token], width: int, *, tight: bool = False) -> list[Line]:
        lines: list[Line] = []
        definition_end: int | None = None
        for block in _siblings(tokens):
            made = self._block(block, width)
            if not any(made):
                continue
            start, end = block[0].map or (0, 0)
            is_definition = block[0].type == "definition"
            if lines and not tight and not (is_definition and start == definition_end):
                lines.append([])
            lines += made
            definition_end = end if is_definition else None
        return lines

    def _block(self, tokens: Sequence[Token], width: int) -> list[Line]:
        first = tokens[0]
        inside = tokens[1:-1]
        match first.type:
            case "heading_open":
                style = HEADINGS.get(first.tag, PLAIN)
                pieces = [piece for token in inside for piece in _inline(token, style)]
                return _wrapped(pieces, width)
            case "inline":
                return _wrapped(_inline(first), width)
            case "paragraph_open":
                return self.blocks(inside, width)
            case "blockquote_open":
                return self._quotation(inside, width)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(inside, width)
            case "table_open":
                return _table(inside, width)
            case "hr":
                return [[Segment("─" * width, DIM)]]
            case "fence" | "code_block":
                return self._code(first, width)
            case "definition":
                return _wrapped(_definition(first), width)
            case _ if first.nesting:
                return self.blocks(inside, width)
            case _:
                return _wrapped([_piece((first.content or first.markup).rstrip("\n"))], width)

    def _quotation(self, tokens: Sequence[Token], width: int) -> list[Line]:
        mark = Segment("▌ ", QUOTED)
        room = width - mark.cell_length
        if room < LEAST:
            return self.blocks(tokens, width)
        return [[mark, *line] for line in self.blocks(tokens, room) or [[]]]

    def _list(self, tokens: Sequence[Token], width: int) -> list[Line]:
        items = list(_siblings(tokens))
        level = items[0][0].level + 1
        is_loose = any(
            token.type == "paragraph_open" and token.level == level and not token.hidden
            for token in tokens
        )
        marks = [_mark(item[0]) for item in items]
        indent = max(mark.cell_length for mark in marks)
        lines: list[Line] = []
        for item, mark in zip(items, marks, strict=True):
            if lines and is_loose:
                lines.append([])
            inside = item[1:-1]
            if width - indent < LEAST:
                lines += [[mark], *self.blocks(inside, width, tight=not is_loose)]
                continue
            body = self.blocks(inside, width - indent, tight=not is_loose) or [[]]
            first = Segment(mark.text.rjust(indent), mark.style)
            lines.append([first, *body[0]])
            lines += [[Segment(" " * indent), *line] if line else [] for line in body[1:]]
        return lines

    def _code(self, token: Token, width: int) -> list[Line]:
        info = printable(token.info.strip())
        lines = _wrapped([Segment(token.markup + info, DIM)], width) if info else []
        code = printable(token.content).removesuffix("\n")
        if not code:
            return lines
        language = info.split()[0] if info else "text"
        text = Syntax(code, language).highlight(code)
        if text.plain.removesuffix("\n") != code:
            text = Syntax(code, "text").highlight(code)
        background = text.style if isinstance(text.style, Style) else PLAIN
        for line in _logical_lines(text.render(self._console))[: code.count("\n") + 1]:
            for row in _cut(line, folds("".join(piece.text for piece in line), width)):
                blank = width - sum(piece.cell_length for piece in row)
                lines.append([*row, Segment(" " * blank, background)])
        return lines


def _siblings(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Split tokens into blocks: single tokens, or all from an opening to its closing token."""
    begin = depth = 0
    for at, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            yield tokens[begin : at + 1]
            begin = at + 1


def _mark(item: Token) -> Segment:
    if item.info:
        return Segment(f"{item.info}{item.markup} ", NUMBER)
    return Segment("• ", MARKER)


def _definition(token: Token) -> Line:
    meta = token.meta
    label = _piece(f"[{meta['label']}]: ")
    title = f' "{meta["title"]}"' if meta["title"] else ""
    return [label, _piece(meta["url"], TARGET), _piece(title)]


# -- tables ----------------------------------------------------------------------------------------


def _table(tokens: Sequence[Token], width: int) -> list[Line]:
    rows: list[list[Line]] = []
    aligned: list[str] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "th_open":
            aligned.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
        elif token.type == "inline":
            rows[-1].append(_inline(token, MARKER if len(rows) == 1 else PLAIN))
    count = max(map(len, rows))
    for row in rows:
        row += [[] for _ in range(count - len(row))]
    aligned += [""] * (count - len(aligned))
    columns = zip(*rows, strict=True)
    natural = [max(1, *(_length(cell) for cell in column)) for column in columns]
    widths = _shared(natural, width - 3 * (count - 1))
    if widths is None:
        return _rows_as_text(rows, width)
    laid_out = [_row(row, widths, aligned) for row in rows]
    is_wrapped = any(len(lines) > 1 for lines in laid_out)
    lines = [*laid_out[0], [Segment("━┿━".join("━" * one for one in widths), DIM)]]
    for number, row_lines in enumerate(laid_out[1:]):
        if number and is_wrapped:
            lines.append([Segment("─┼─".join("─" * one for one in widths), DIM)])
        lines += row_lines
    return lines


def _shared(natural: Sequence[int], room: int) -> list[int] | None:
    """Distribute the screen's width over table columns; `None` if the screen is too narrow."""
    if sum(min(each, LEAST_CELL) for each in natural) > room:
        return None
    widths = list(natural)
    left = room
    narrow_first = sorted(range(len(natural)), key=lambda at: natural[at])
    for place, at in enumerate(narrow_first):
        widths[at] = min(natural[at], left // (len(natural) - place))
        left -= widths[at]
    return widths


def _row(row: Sequence[Line], widths: Sequence[int], aligned: Sequence[str]) -> list[Line]:
    cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines: list[Line] = []
    for at in range(max(map(len, cells))):
        line: Line = []
        for number, (cell, width, align) in enumerate(zip(cells, widths, aligned, strict=True)):
            pieces = cell[at] if at < len(cell) else []
            blank = max(0, width - _length(pieces))
            before = {"right": blank, "center": blank // 2}.get(align, 0)
            line += [Segment(" │ ", DIM)] if number else []
            line += [Segment(" " * before), *pieces, Segment(" " * (blank - before))]
        lines.append(_without_final_blanks(line))
    return lines


def _rows_as_text(rows: Sequence[Sequence[Line]], width: int) -> list[Line]:
    lines: list[Line] = []
    for number, row in enumerate(rows):
        if number:
            lines.append([Segment("─" * width, DIM)])
        pieces = list(row[0])
        for cell in row[1:]:
            pieces += [Segment(" │ ", DIM), *cell]
        lines += _wrapped(pieces, width)
    return lines


# -- text ------------------------------------------------------------------------------------------


def _piece(text: str, style: Style = PLAIN) -> Segment:
    return Segment(printable(text), style)


def _inline(token: Token, style: Style = PLAIN) -> Line:
    """Render the inline content of a block.

    The function does not recurse, because emphasis may be nested deeply.
    """
    pieces: Line = []
    spans: Counter[str] = Counter()
    links: list[tuple[Token, int]] = []
    current = style
    for child in token.children or []:
        kind = child.type.rpartition("_")[0]
        match child.type:
            case "text":
                pieces.append(_piece(child.content, current))
            case "softbreak" | "hardbreak":
                pieces.append(Segment("\n", current))
            case "code_inline":
                pieces.append(_piece(child.content, current + CODE))
            case "image":
                pieces += [Segment("![", current), *_inline(child, current)]
                pieces.append(_piece(f"]({_target(child, 'src')})", current + TARGET))
            case _ if child.nesting and kind in SPANS:
                spans[kind] += child.nesting
                current = Style.combine([style, *(SPANS[one] for one in +spans)])
                if child.type == "link_open":
                    links.append((child, len(pieces)))
                elif kind == "link":
                    opening, begin = links.pop()
                    text = "".join(piece.text for piece in pieces[begin:])
                    if child.info != "auto" and text != printable(_target(opening, "href")):
                        pieces.append(Segment(" (", current))
                        pieces.append(_piece(_target(opening, "href"), current + TARGET))
                        pieces.append(Segment(")", current))
            case _:
                pieces.append(_piece(child.content or child.markup, current))
    return pieces


def _target(token: Token, attribute: str) -> str:
    target = str(token.attrs.get(attribute, ""))
    title = token.attrs.get("title")
    return f'{target} "{title}"' if title else target


def _length(pieces: Iterable[Segment]) -> int:
    return sum(piece.cell_length for piece in pieces)


def _wrapped(pieces: Iterable[Segment], width: int) -> list[Line]:
    """Break lines at spaces and between ideographs; break longer words anywhere."""
    lines = []
    for line in _logical_lines(pieces):
        offsets = breaks("".join(piece.text for piece in line), width)
        lines += [_without_final_blanks(each) for each in _cut(line, offsets)]
    return lines


def _logical_lines(pieces: Iterable[Segment]) -> list[Line]:
    """Split pieces at line ends, and replace tabs by spaces."""
    lines: list[Line] = [[]]
    column = 0
    for text, style, _ in pieces:
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
                column = 0
            first, *behind_tabs = part.split("\t")
            runs = [first]
            column += cell_len(first)
            for run in behind_tabs:
                blank = TAB - column % TAB
                runs.append(" " * blank + run)
                column += blank + cell_len(run)
            if part:
                lines[-1].append(Segment("".join(runs), style))
    return lines


def _cut(line: Line, offsets: Sequence[int]) -> list[Line]:
    """Split a line at `offsets`, which count the characters of the line's text."""
    lines: list[Line] = [[]]
    left = list(reversed(offsets))
    at = 0
    for text, style, _ in line:
        begin = 0
        while left and left[-1] < at + len(text):
            end = left.pop() - at
            if end > begin:
                lines[-1].append(Segment(text[begin:end], style))
            lines.append([])
            begin = end
        lines[-1].append(Segment(text[begin:], style))
        at += len(text)
    return lines


def _without_final_blanks(line: Line) -> Line:
    """Remove trailing spaces, which disturb copying and the echo of ^C."""
    kept = list(line)
    while kept:
        text = kept[-1].text.rstrip(" ")
        if text:
            kept[-1] = Segment(text, kept[-1].style)
            break
        kept.pop()
    return kept


def joined(lines: list[Line]) -> list[Segment]:
    """Return the segments of lines, each followed by a line end."""
    return [segment for line in lines for segment in (*line, Segment.line())]
