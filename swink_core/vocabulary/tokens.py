"""Estimate the number of tokens of a prompt by its writing systems, without a tokenizer.

    Latin     one token for a word, several for a long word, more for long texts without spaces
    code      digits, punctuation, line breaks and indentation
    CJK       ideographs, kana, Hangul
    emoji     characters outside of the Basic Multilingual Plane
    other     all other scripts, by the bytes of a character in UTF-8

An `Estimate` contains the expected number of tokens and an upper bound. Before an attempt, limits
reserve the upper bound. If an answer reports no usage, the expected number is charged. The page
"Usage and cost" lists the measured errors of the estimates. Counting a text takes a few calls of
functions that are implemented in C, and needs no token dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from string import ascii_letters, digits, whitespace
from typing import Any, NamedTuple

import msgspec

from swink_core.vocabulary.media_sizes import audio_seconds, image_size, pdf_pages
from swink_core.vocabulary.messages import (
    AudioBlock,
    Base64Source,
    Block,
    Context,
    DocumentBlock,
    ExtensionBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UserMessage,
)


class Estimate(NamedTuple):
    """An estimated number of tokens: the expected number and an upper bound."""

    tokens: float = 0.0
    most: float = 0.0

    def plus(self, *others: Estimate) -> Estimate:
        """Return the sum of this estimate and others."""
        tokens = self.tokens + sum(other.tokens for other in others)
        return Estimate(tokens, self.most + sum(other.most for other in others))

    def rounded(self) -> Estimate:
        """Return the estimate in whole tokens."""
        tokens = ceil(self.tokens)
        return Estimate(tokens, max(tokens, ceil(self.most)))


class MediaTokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a provider counts the tokens of media.

    If `image_tile` (the side of a tile in pixels) is 0, an image counts as `image` tokens.
    Otherwise, an image is first scaled down so that its longer side has at most `image_side` pixels
    (0: not scaled). It then counts as `image_base` tokens plus `image_tile_tokens` for each tile;
    `image` is used only for an image whose size is unknown. Sound counts as `audio_second` tokens
    per second, and a document as `page` tokens per page.
    """

    image: int = 2_200
    image_side: int = 0
    image_tile: int = 0
    image_base: int = 0
    image_tile_tokens: int = 0
    audio_second: float = 32.0
    page: int = 4_600


_LETTERS = ascii_letters.encode()
_DIGITS = digits.encode()
_SPACES = whitespace.encode()
_ALL_BUT_MARKS = _LETTERS + _DIGITS + _SPACES
_ASCII = bytes(range(128))
_SHAPE = bytes(ord("a") if c in _LETTERS + _DIGITS else ord(" ") for c in range(256))

_CJK = "[\u2e80-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\uffef]+"
_THREE_BYTES = "[\u0800-\uffff]+"

LONG_WORD = 12
"""If a text's words have more letters than this on average, the text is counted as base64,
hashes or minified code.
"""

MESSAGE = Estimate(4.0, 8.0)
"""Tokens of a message besides its text."""

TOOL = Estimate(10.0, 30.0)
"""Tokens of a tool besides its JSON definition."""

TOOLS = Estimate(0.0, 700.0)
"""Tokens of the instructions that some providers add to a prompt if the request has tools."""

PREFIX = Estimate(0.0, 100.0)
"""Tokens of the instructions that some models, such as gpt-oss, add to every prompt."""

_PAGED = frozenset({
    "application/msword", "application/pdf", "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint", "application/x-pdf",
})  # fmt: skip
_PAGED_FAMILIES = (
    "application/vnd.oasis.opendocument.", "application/vnd.openxmlformats-officedocument.",
    "audio/", "image/", "video/",
)  # fmt: skip
"""The types of documents whose tokens are counted by pages; all others are counted as text."""

UNKNOWN_MEDIUM_SECONDS = 60.0
UNKNOWN_PAGES = 10
"""Assumed pages of a document that the request contains only as a URL or an id."""


def text_tokens(text: str) -> Estimate:
    """Estimate the tokens of a text."""
    if not text:
        return Estimate()
    plain = text.encode("ascii", "ignore")
    # a list of the words would take ten times the memory of the text
    words = b"".join((b" ", plain.translate(_SHAPE))).count(b" a")
    spaces = len(plain) - len(plain.translate(None, _SPACES))
    numerals = len(plain) - len(plain.translate(None, _DIGITS))
    marks = len(plain.translate(None, _ALL_BUT_MARKS))
    letters = len(plain) - spaces - numerals - marks
    lines = plain.count(b"\n")
    indentation = max(0, spaces - words - lines)
    excess = max(0, letters - LONG_WORD * (words + numerals))
    tokens = max(min(words, letters), (letters - excess) / 3.8) + excess * 0.45
    most = min(words, letters) + (letters - excess) / 4 + excess * 0.75
    tokens += numerals / 2 + marks * 0.8 + lines * 0.7 + indentation / 12
    most += numerals + marks + lines + indentation / 4
    if len(plain) == len(text):
        return Estimate(tokens, most)
    return Estimate(tokens, most).plus(_other_scripts(text))


def _other_scripts(text: str) -> Estimate:
    # not ASCII; a lone surrogate counts as a character of three bytes
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    others = rest.decode("utf-8", "surrogatepass")
    characters = len(others)
    astral = len(others.encode("utf-16-le", "surrogatepass")) // 2 - characters
    without = re.sub(_CJK, "", others)
    cjk = characters - len(without)
    two_bytes = re.sub(_THREE_BYTES, "", without)
    three = len(without) - len(two_bytes)
    two = len(two_bytes) - astral
    return Estimate(
        cjk + astral * 2.5 + two * 0.5 + three,
        cjk * 2.0 + astral * 4.0 + two + three * 2.5,
    )


def data_tokens(data: Any) -> Estimate:
    """Estimate the tokens of data that is sent as JSON.

    If JSON cannot represent the data, its `repr` is used.
    """
    if not data:
        return Estimate()
    try:
        text = msgspec.json.encode(data).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = repr(data)
    return text_tokens(text)


def texts_tokens(data: Any) -> Estimate:
    """Estimate the tokens of all texts in JSON data from a vendor.

    The names of fields do not count, because nearly all of them come from the vendor and not from
    the model. Log probabilities do not count, because they repeat the tokens of the text.
    """
    try:
        return text_tokens(" ".join(_texts(data)))
    except RecursionError:
        return data_tokens(data)


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, list):
        for item in data:
            yield from _texts(item)
    elif isinstance(data, dict):
        for name, value in data.items():
            if name != "logprobs":
                yield from _texts(value)


def prompt_tokens(context: Context, media: MediaTokens, *more: Any) -> Estimate:
    """Estimate the tokens of a conversation with its tools, and of further JSON data (`more`)."""
    parts = [PREFIX, *_of_content(context.system_prompt or "", media)]
    for tool in context.tools:
        definition = text_tokens(f"{tool.name} {tool.description}")
        parts += (TOOL, definition, data_tokens(tool.parameters), data_tokens(tool.metadata))
    if context.tools:
        parts.append(TOOLS)
    for message in context.messages:
        parts.append(MESSAGE)
        parts += _of_content(message.content, media)
        if isinstance(message, UserMessage) and message.name:
            parts.append(text_tokens(message.name))
    parts += (data_tokens(data) for data in more)
    return Estimate().plus(*parts).rounded()


def sound_seconds(context: Context) -> Estimate:
    """Estimate the seconds of sound in a conversation, with an upper bound."""
    contents = [context.system_prompt, *(message.content for message in context.messages)]
    known = (content for content in contents if content is not None)
    blocks = (block for content in known if not isinstance(content, str) for block in content)
    sounds = (_seconds_of(block) for block in blocks if isinstance(block, AudioBlock))
    return Estimate().plus(*sounds)


def _of_content(content: str | Sequence[Block], media: MediaTokens) -> Iterable[Estimate]:
    if isinstance(content, str):
        return (text_tokens(content),)
    return (_of_block(block, media) for block in content)


def _of_block(block: Any, media: MediaTokens) -> Estimate:
    make = _BLOCKS.get(type(block))
    return make(block, media) if make is not None else data_tokens(block)


def _of_call(block: ToolCallBlock, media: MediaTokens) -> Estimate:
    text = block.raw_arguments
    arguments = data_tokens(block.arguments) if text is None else text_tokens(text)
    return TOOL.plus(text_tokens(block.name), arguments)


def _of_image(block: ImageBlock, media: MediaTokens) -> Estimate:
    tokens = float(media.image)
    source = block.source
    size = image_size(source.data) if isinstance(source, Base64Source) else None
    if size is not None and media.image_tile:
        width, height = size
        shrunk = media.image_side / max(width, height) if media.image_side else 1.0
        side = media.image_tile / min(1.0, shrunk)
        tiles = ceil(width / side) * ceil(height / side)
        tokens = media.image_base + media.image_tile_tokens * tiles
    return Estimate(tokens, tokens * 1.1)


def _of_audio(block: AudioBlock, media: MediaTokens) -> Estimate:
    seconds, most = _seconds_of(block)
    return Estimate(media.audio_second * seconds, media.audio_second * most)


def _seconds_of(block: AudioBlock) -> Estimate:
    source = block.source
    if isinstance(source, Base64Source):
        seconds, longest = audio_seconds(source.data)
        return Estimate(seconds, max(seconds * 1.5, longest))
    return Estimate(UNKNOWN_MEDIUM_SECONDS, UNKNOWN_MEDIUM_SECONDS * 10)


def _of_document(block: DocumentBlock, media: MediaTokens) -> Estimate:
    about = data_tokens(block.metadata)  # its title, and what the caller says about it
    return _of_pages(block, media).plus(about)


def _has_pages(media_type: str) -> bool:
    """Return True for a document that is not sent as text: a PDF, an Office document, a video."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind in _PAGED or kind.startswith(_PAGED_FAMILIES)


def _of_pages(block: DocumentBlock, media: MediaTokens) -> Estimate:
    source = block.source
    if isinstance(source, Base64Source):
        if not _has_pages(source.media_type):
            characters = len(source.data) * 3 / 4
            return Estimate(characters / 4, characters)
        tokens = float(media.page * pdf_pages(source.data))
        return Estimate(tokens, tokens * 1.5)
    tokens = float(media.page * UNKNOWN_PAGES)
    return Estimate(tokens, tokens * 10)


_BLOCKS: dict[type, Callable[[Any, MediaTokens], Estimate]] = {
    TextBlock: lambda block, _: text_tokens(block.text),
    ThinkingBlock: lambda block, _: text_tokens(block.thinking),
    ToolCallBlock: _of_call,
    ImageBlock: _of_image,
    AudioBlock: _of_audio,
    DocumentBlock: _of_document,
    ExtensionBlock: lambda block, _: data_tokens(block.data),
}
