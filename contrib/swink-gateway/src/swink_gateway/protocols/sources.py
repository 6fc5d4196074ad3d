"""Convert the web sources of a text from any provider's format to that of a client's protocol.

The formats are OpenAI's annotations (nested in an object in Chat Completions), Anthropic's
citations, Google's grounding, and result lists like Perplexity's. Other data of a citation is not
converted: it stays in the text's metadata, in the provider's format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["Source", "flat_annotation", "nested_annotation", "sources_of"]

CITATION = "url_citation"


class Source(NamedTuple):
    """A URL, its title, and the range of characters in the text that cites it."""

    url: Any
    title: str
    start: int
    end: int


def sources_of(metadata: Mapping[str, Any] | None, text: str) -> list[Source]:
    """Return the sources in the metadata of a text."""
    said = metadata or {}
    found = [*_annotated(said), *_listed(said, text), *_grounded(said, text)]
    return [one for one in found if isinstance(one.url, str) and one.url]


def flat_annotation(source: Source) -> dict[str, Any]:
    """Return a source as an annotation of the Responses API."""
    place = {"start_index": source.start, "end_index": source.end}
    return {"type": CITATION, "url": source.url, "title": source.title, **place}


def nested_annotation(source: Source) -> dict[str, Any]:
    """Return a source as an annotation of Chat Completions."""
    inner = flat_annotation(source)
    return {"type": inner.pop("type"), CITATION: inner}


def _annotated(said: Mapping[str, Any]) -> Iterator[Source]:
    for one in _objects(said.get("annotations")):
        if one.get("type") == CITATION:
            inner = one.get(CITATION, one)
            if isinstance(inner, Mapping):
                places = [inner.get(name) for name in ("start_index", "end_index")]
                start, end = (place if isinstance(place, int) else 0 for place in places)
                yield Source(inner.get("url", ""), _title(inner), start, end)


def _listed(said: Mapping[str, Any], text: str) -> Iterator[Source]:
    listed = said.get("search_results") or said.get("citations")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, str):
            yield Source(one, "", 0, len(text))
        elif isinstance(one, Mapping) and "url" in one:
            yield Source(one["url"], _title(one), 0, len(text))


def _grounded(said: Mapping[str, Any], text: str) -> Iterator[Source]:
    grounding = said.get("groundingMetadata")
    if not isinstance(grounding, Mapping):
        return
    pages = [one.get("web") for one in _objects(grounding.get("groundingChunks"))]
    data = text.encode("utf-8", "surrogatepass")
    for support in _objects(grounding.get("groundingSupports")):
        segment = support.get("segment")
        places = segment if isinstance(segment, Mapping) else {}
        start, end = (_characters(data, places.get(n)) for n in ("startIndex", "endIndex"))
        for number in support.get("groundingChunkIndices") or ():
            page = pages[number] if isinstance(number, int) and number < len(pages) else None
            if isinstance(page, Mapping):
                yield Source(page.get("uri", ""), _title(page), start, end)


def _characters(data: bytes, count: Any) -> int:
    """Convert a number of bytes to a number of characters."""
    return len(data[: count if isinstance(count, int) else 0].decode("utf-8", "ignore"))


def _title(said: Mapping[str, Any]) -> str:
    title = said.get("title")
    return title if isinstance(title, str) else ""


def _objects(data: Any) -> Iterator[Mapping[str, Any]]:
    yield from (one for one in (data if isinstance(data, list) else ()) if isinstance(one, Mapping))
