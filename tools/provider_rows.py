"""One row per installed provider, with the form of requests and answers, for the page of providers.

Names, addresses, variables and models come from the catalogues; features, options, framing,
requests and headers from the code, by a request that is never sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from attrs import define, evolve
from reference_parts import words

import swink_core as swink
from swink_core import ProviderInfo
from swink_core.providers import Catalog, HTTPProvider, HTTPRequest, rule_of
from swink_recorder.recording import Recording, bundled_recordings
from swink_testing.calls import call_of
from swink_testing.driver import run_bytes

FRAMINGS = {
    "SSEDecoder": "SSE", "NDJSONDecoder": "lines of JSON",
    "EventStreamDecoder": "AWS event stream", "StreamDecoder": "SSE, or a JSON array",
}  # fmt: skip
RESPONSES = "openai-responses"
NOTHING = "-"
BASE, KEY = "https://base.example", "AIza-or-any-key"  # Vertex AI takes others for access tokens


@define
class Row:
    """A provider, or another API of the same provider."""

    title: str
    name: str
    distribution: str
    package: str
    info: ProviderInfo
    provider: Any
    models: Sequence[swink.Model]
    wire: str
    rules: tuple[Any, ...] = ()
    asked: swink.Model | None = None

    @property
    def takes(self) -> set[str]:
        """The features and tuning options of a provider, over its models."""
        api, found = self.api, set[str]()
        for model in (self.model, *self.models):
            refused = {name for name, taken in rule_of(model, api).takes.items() if not taken}
            found |= {*api.features, *api.knobs} - refused
        return found

    @property
    def model(self) -> swink.Model:
        return self.asked or swink.Model(self.name, "MODEL", rules=self.rules)

    @property
    def options(self) -> swink.StreamOptions:
        settings = {"api": "responses"} if self.wire == RESPONSES else {}
        return swink.StreamOptions(base_url=BASE, api_key=KEY, settings=settings)

    @property
    def api(self) -> Any:
        """The object that has the features and options."""
        if isinstance(self.provider, HTTPProvider):
            return self.provider.api(self.model, self.options)
        return self.provider


def rows() -> Iterator[Row]:
    """Yield the installed providers by name, Responses beside Chat Completions."""
    host = swink.Host()
    catalog = Catalog(host, environ={})
    for name in host.provider_names():
        info = catalog.provider(name)
        assert info is not None
        provider = host.bind(name).provider
        models = [catalog.resolve(swink.Model(name, row.id)) for row in catalog.models(name)]
        entry = host.entry(name)
        others = [model for model in models if asks_responses(provider, model)]
        chat = [model for model in models if model not in others]
        known = (name, entry.distribution, entry.package, info, provider)
        rules = catalog.rules(name, "MODEL")
        yield Row(f"`{name}`", *known, chat, info.wire_format, rules)
        if others or "websocket" in info.dialect:
            yield Row(f"`{name}`, Responses", *known, others, RESPONSES, rules)


def asks_responses(provider: Any, model: swink.Model) -> bool:
    """Return whether a model uses the Responses API."""
    if not isinstance(provider, HTTPProvider):
        return False
    return provider.api(model, swink.StreamOptions(base_url=BASE)).api_name == "responses"


def codes(names: Iterable[str]) -> str:
    """List names as code, or return a dash for an empty list."""
    return words(names) or NOTHING


def request_of(row: Row, **options: Any) -> HTTPRequest | None:
    """Return the request of a call; `None` where answers do not come over HTTP."""
    if not getattr(row.provider, "speaks_http", False):
        return None
    context = swink.Context([swink.UserMessage("Hello")])
    asked = evolve(row.options, **options)
    if isinstance(row.provider, HTTPProvider):
        asked = row.provider.fit(row.model, context, asked).options
    payload = row.provider.convert(row.model, context, asked)
    request: HTTPRequest = row.provider.request(row.model, payload, asked)
    return request


def sent(row: Row) -> tuple[str, str]:
    """Return where a row's request goes, and the header that holds the key."""
    request = request_of(row)
    if request is None:
        return NOTHING, NOTHING
    asyncio.run(row.provider.authorize(request, row.options, call_of(row.provider, row.model)))
    headers = [name for name, value in request.headers.items() if KEY in value]
    address = urlsplit(request.url)
    path = address.path + (f"?{address.query}" if address.query else "")
    return f"`{request.method} {path}`", codes(headers)


def framing(row: Row) -> str:
    """Describe the framing of a row's answers."""
    if not isinstance(row.provider, HTTPProvider):
        return NOTHING
    decoder = type(row.provider.decoder()).__name__
    words = [FRAMINGS[decoder]]
    if row.api.buffered:
        words.append("whole")
    if row.api.websocket:
        words.append("WebSocket")
    return ", ".join(words)


def credentials(info: ProviderInfo) -> str:
    """Return the environment variables with an API key, and the other ways to sign in."""
    if info.auth == "none":
        return "none"
    ways = {
        "aws": ["AWS credentials"],
        "google-auth": ["Google's default credentials"],
        "key": [],
        "optional": ["none"],
    }.get(info.auth, [info.auth])
    return " or ".join([*(f"`{name}`" for name in info.api_key_env), *ways])


def thinking(row: Row) -> str:
    """Return the request fields that turn on thinking for the listed models."""
    if "thinking" not in row.takes:
        return NOTHING
    fields: set[str] = set()
    listed = [m for m in row.models if m.info and "thinking" in (m.info.capabilities or ())]
    for model in listed or [row.model]:
        asked = evolve(row, asked=model)
        bodies = [request_of(asked, thinking=level) for level in (None, swink.ThinkingLevel.HIGH)]
        plain, thoughtful = (msgspec.json.decode(body.body) if body else {} for body in bodies)
        fields.update(_new(plain, thoughtful))
    return codes(sorted(fields))


def _new(old: Any, new: Any, place: str = "") -> Iterator[str]:
    for name, value in new.items():
        if isinstance(value, dict):
            yield from _new(old.get(name, {}), value, f"{place}{name}.")
        elif name not in old:
            yield place + name


def tool_calls(rows: Iterable[Row]) -> dict[str, str]:
    """Tell by wire format how the arguments of calls come, as the recordings show it."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if not isinstance(row.provider, HTTPProvider) or row.wire == RESPONSES:
            continue
        for folder in bundled_recordings(row.package):
            recording = Recording.load(folder)
            if recording.provider == row.name and recording.status == 200:
                ways = _ways(row.provider, recording)
                found.setdefault(row.wire, set()).update(ways)
    return {wire: " or ".join(sorted(ways)) for wire, ways in found.items() if ways}


def _ways(provider: Any, recording: Recording) -> Iterator[str]:
    pieces = [piece for _, piece in recording.pieces()]
    deltas: dict[int, int] = {}
    for event in run_bytes(provider, recording.model, pieces):
        if isinstance(event, swink.ToolCallDelta):
            deltas[event.content_index] = deltas.get(event.content_index, 0) + 1
    for number in deltas.values():
        yield "in pieces" if number > 1 else "whole"
