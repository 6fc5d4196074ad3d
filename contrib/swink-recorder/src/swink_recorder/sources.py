"""Replace each credential in the file of a recorded call by a text that names its source.

    Authorization: Bearer [key]                 from the caller, or from an earlier call
    Authorization: Bearer [0.access_token]      that field of the first answer
    Cookie: [hidden]                            from an unknown source

The scheme (such as `Bearer`) is kept. So a test can verify that a provider sends the credential
that it received in a certain answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from swink_core.providers import codings_of_secret
from swink_recorder.legs import (
    STREAMED,
    LegFile,
    RecordedLeg,
    RequestFile,
    ResponseFile,
    json_of,
)
from swink_recorder.scrub import (
    HIDDEN,
    KEY,
    SHORTEST_SECRET,
    hidden,
    is_mark,
    is_secret,
    is_secret_parameter,
    replaced,
    scheme_of,
    scrub_headers,
    scrub_url,
    scrubbed,
)

__all__ = ["Sources"]

LONG = 12
"""A text in a token response is treated as a credential if it has at least this length."""

SIGNED = 40
"""A field in a token request is treated as a credential if it has at least this length."""

_HARMLESS_FIELDS = ("_type", "scope", "error", "description", "uri", "url", "audience")
"""A field of a token request or response is harmless if its name ends in one of these."""


class Sources:
    """Finds the secrets in legs (requests with their answers), and replaces them by their sources.

    `secrets` are the known secrets; others are found by the names of headers, parameters and
    fields. A text that occurs in `named` (the names of models) is not treated as a secret.
    """

    def __init__(
        self, legs: Sequence[RecordedLeg], secrets: Iterable[str], named: str = ""
    ) -> None:
        known = {secret for secret in secrets if secret}
        sent = [{text for text in _sent(leg) if not is_mark(text)} for leg in legs]
        every = known.union(*sent)
        labels: dict[str, str] = {}
        for number, leg in enumerate(legs):
            for value in sent[number]:
                labels.setdefault(value, KEY if value in known else HIDDEN)
            for place, value in _given(leg, every):
                labels.setdefault(value, f"[{number}.{place}]")
        for secret in known:
            labels.setdefault(secret, KEY)
        self._labels = labels
        self._replaced = {
            text: mark for text, mark in labels.items() if _is_long(text) and text not in named
        }
        self.secrets = {*self._replaced}

    def mark(self, data: bytes) -> bytes:
        """Return JSON in which each secret is replaced by its source."""
        return replaced(data, self._replaced)

    def row(self, leg: RecordedLeg, **content: Any) -> dict[str, Any]:
        """Return a leg as JSON data for a file; pass the result to `mark`.

        `content` are further fields, which describe where the body is stored.
        """
        asked = leg.request
        request = None
        if asked.method:
            request = RequestFile(
                asked.method,
                scrub_url(self._text(asked.path)),
                {name: self._header(name, value) for name, value in asked.headers.items()},
                asked.origin,
                asked.body,
                asked.form,
            )
        response = None
        if leg.status or leg.body:
            headers = scrub_headers(leg.headers)
            response = ResponseFile(leg.status, headers, round(leg.answered_at, 6), **content)
        row = LegFile(leg.kind, round(leg.sent_at, 6), request, response)
        data: dict[str, Any] = msgspec.to_builtins(row, enc_hook=repr)
        for timed in (data, data.get("response", {})):
            if timed.get("at") == 0:
                del timed["at"]
        return data

    def body(self, leg: RecordedLeg) -> tuple[bytes, list[tuple[float, int]]]:
        """Return a leg's body without secrets, and its chunks.

        A stream keeps its length, because its frames may contain their length in bytes. In an error
        response, each secret is replaced by `[hidden]`, as in error messages; in other answers, by
        its source. A body whose size has changed becomes a single chunk.
        """
        body = leg.body
        if leg.kind in ("token", "whole") and 200 <= leg.status < 300:
            body = self.mark(body)
            if leg.kind == "token" and json_of(leg.body) is None:
                body = HIDDEN.encode() if body else body
        elif leg.status not in STREAMED:
            body = hidden(body, self.secrets, HIDDEN)
        body = scrubbed(body, self.secrets)
        kept = body is leg.body or len(body) == len(leg.body)
        return body, leg.chunks if kept else [(leg.chunks[-1][0], len(body))]

    def _text(self, text: str) -> str:
        """Return a path or the value of a header with secrets replaced by their sources."""
        for secret in sorted(self._replaced, key=len, reverse=True):
            for form in codings_of_secret(secret):
                text = text.replace(form, self._replaced[secret])
        return text

    def _header(self, name: str, value: str) -> str:
        if not is_secret(name):
            return self._text(value)
        scheme, rest = scheme_of(value, name)
        return scheme + (rest if is_mark(rest) else self._labels.get(rest, HIDDEN))


def _is_long(text: str) -> bool:
    return len(text) >= SHORTEST_SECRET


def _sent(leg: RecordedLeg) -> Iterator[str]:
    """Yield the credentials of a request, found by the names of headers and fields."""
    request = leg.request
    for name, value in request.headers.items():
        if is_secret(name):
            yield scheme_of(value, name)[1]
    query = urlsplit(request.path).query
    for name, value in parse_qsl(query) if query else ():
        if is_secret_parameter(name):
            yield value
    if leg.kind != "token":
        return
    for name, value in (*_texts(request.form), *_texts(request.body)):
        if _counts(name, value, SIGNED):
            yield value


def _given(leg: RecordedLeg, secrets: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the credentials in an answer that was not streamed, each with the field's name."""
    if leg.kind not in ("token", "whole") or not 200 <= leg.status < 300:
        return
    for name, value in _texts(json_of(leg.body)):
        if value in secrets or (leg.kind == "token" and _counts(name, value, LONG)):
            yield name, value


def _counts(name: str, value: str, long: int) -> bool:
    field = name.lower().rpartition(".")[2]
    if field.endswith(_HARMLESS_FIELDS) or is_mark(value):
        return False
    return _is_long(value) and (is_secret(field) or "assertion" in field or len(value) >= long)


def _texts(data: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the strings in JSON data, each with its path of names, separated by dots."""
    if isinstance(data, str):
        yield place, data
    named: Mapping[Any, Any] = data if isinstance(data, dict) else {}
    if isinstance(data, list):
        named = dict(enumerate(data))
    for name, value in named.items():
        yield from _texts(value, f"{place}.{name}" if place else str(name))
