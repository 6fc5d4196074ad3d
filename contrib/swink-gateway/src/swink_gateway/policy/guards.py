"""Guards check requests to a vendor.

Keys and routes in the configuration file refer to guards by name.

A guard receives the whole JSON body of each request of an attempt, after conversion: the
conversation, instructions, tools, and fields that the gateway does not know. It changes the body or
refuses the request. Guards fail closed: if a guard raises, or if a provider does not use the hook
through which guards receive requests, nothing is sent.
"""

from __future__ import annotations

import base64
import logging
import re
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import NoneType
from typing import Any, ClassVar

import msgspec
from attrs import define, field

from swink_core import (
    Call,
    Done,
    Error,
    Failure,
    ProviderFailure,
    ResponseHead,
    StreamErrorKind,
    Target,
    UsageError,
)
from swink_core.providers import prompt_of
from swink_gateway.policy.config import RequestGuard
from swink_gateway.policy.readings import (
    documents,
    has_one_form,
    other_forms,
    plain_forms,
    unescaped,
)
from swink_gateway.policy.text_search import LongSearch

__all__ = ["GUARD_NAME", "GUARD_TAG", "CallGuards", "Guard", "PluginGuard", "Prepared"]

log = logging.getLogger(__name__)

GROUP = "swink.guards"
"""The entry-point group of guards in installed packages.

Each entry point is a function that creates a `PluginGuard` from settings.
"""

GUARD_NAME = re.compile(r"[\w-]{1,58}")
"""Matches the name of a guard, which becomes part of a tag in the ledger."""

GUARD_TAG = "guard:"
"""The tag of a guard that changed or refused a request begins with this text."""

CODE = "guard"
"""The error code of a request that a guard refused."""

MOST_FORMS = 8
"""The maximum number of searches in other forms of a redacted text (see `other_forms`)."""

MOST_AT_ONCE = 16_384
"""The maximum length, in characters, of a conversation that guards check in the event loop."""

LONG_NUMBER = 10_000_000
"""The least number that is redacted in fields of the vendor's API, too."""

MOST_MEMORY_AT_ONCE = 256 * 1024
"""The maximum memory, in bytes, of a request with tools that guards check in the event loop."""

PluginGuard = Callable[[dict[str, Any]], dict[str, Any]]
"""A function that receives a request body and returns the body to send.

It raises ProviderFailure or UsageError to refuse the request.
"""

_OPAQUE = frozenset({"encrypted_content", "model", "role", "signature", "thoughtSignature", "type"})
"""Fields with values that a vendor made or defines; the vendor would refuse a changed value.

Fields with these names are checked nevertheless in content that the client defines.
"""

_CLIENTS_OWN = frozenset({
    "$defs", "args", "arguments", "chat_template_kwargs", "const", "default", "definitions",
    "documents", "enum", "examples", "input", "input_examples", "labels", "metadata",
    "patternProperties", "promptVariables", "properties", "response", "variables",
})  # fmt: skip
"""Fields with content that the client defines, such as arguments of tool calls, and schemas.

In these fields, names and numbers are redacted, too.
"""


@define(frozen=True)
class Guard:
    """A guard of the configuration file, with its patterns compiled and its plugin loaded.

    Raises ValueError if the guard is invalid.
    """

    name: str
    of: RequestGuard
    _patterns: Sequence[LongSearch]
    _words: _Words | None
    _plugin: PluginGuard | None

    @classmethod
    def made(cls, name: str, of: RequestGuard) -> Guard:
        """Create a guard from its description in the file. Raises ValueError if it is invalid."""
        if not (of.redact or of.block or of.max_prompt_tokens or of.plugin):
            raise ValueError("redact, block, max_prompt_tokens or plugin was expected")
        if not all(map(_plain, of.block)):
            raise ValueError("block has a word without visible characters")
        patterns = [LongSearch.of(pattern) for pattern in of.redact]
        words = _Words.made(of.block) if of.block else None
        return cls(name, of, patterns, words, _plugin_of(of) if of.plugin else None)

    @property
    def is_quick(self) -> bool:
        """Whether a check runs only code of this package, whose duration is known."""
        return self._plugin is None

    def check_length(self, call: Call) -> None:
        """Raise ProviderFailure for a prompt that is too long."""
        most, target = self.of.max_prompt_tokens, call.attempt.target
        if most is None:
            return
        tokens = prompt_of(target.info, call.context, target.options).tokens
        if tokens > most:
            why = f"the prompt has about {tokens:,.0f} tokens (limit: {most:,})"
            raise self.refusal(why, StreamErrorKind.CONTEXT_WINDOW_EXCEEDED)

    def checked(self, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the body to send, and a description of the changes.

        Raises ProviderFailure or UsageError for a request that must not be sent.
        """
        did = ""
        if self._patterns:
            redaction = _Redaction(self._patterns, self.of.replacement)
            body = redaction.of(body)
            if redaction.count:
                did = f"removed {redaction.count} texts from a request"
        if self._words is not None:
            place = _place_of(self._words, body)
            if place is not None:
                raise self.refusal(f"{place}: a blocked word")
        if self._plugin is not None:
            before = body
            body = self._plugin(deepcopy(before))
            if not isinstance(body, dict):
                raise TypeError(f"the plugin returned a {type(body).__name__} for a body")
            if body != before:
                did = did or "changed a request"
        return body, did

    def refusal(
        self, why: str, kind: StreamErrorKind = StreamErrorKind.CONTENT_FILTERED
    ) -> ProviderFailure:
        """Return the failure of a refused request."""
        message = f"the gateway's guard {self.name!r} refused the request: {why}"
        return ProviderFailure(Failure("connect", kind=kind, code=CODE, message=message))


@define
class CallGuards:
    """Applies the guards of one call, as an item of `Call.gates` and of `Call.guards`.

    `memory` is the memory in bytes that the client's request takes. `acted` are the names of guards
    that changed or refused a request. `is_quick` is true if checking the request in the event loop
    delays other calls less than starting a thread does.
    """

    owner: str
    call: Call
    guards: Sequence[Guard]
    memory: int = 0
    acted: dict[str, None] = field(factory=dict)

    @property
    def is_quick(self) -> bool:
        is_short = self.call.size <= MOST_AT_ONCE and self.memory <= MOST_MEMORY_AT_ONCE
        return is_short and all(one.is_quick for one in self.guards)

    async def enter(self, target: Target) -> None:
        """Raise ProviderFailure for a provider that does not pass requests to guards."""
        if getattr(target.binding.provider, "convert_messages", None) is None:
            guard = self.guards[0]
            self._note(guard, "refused a request")
            raise guard.refusal(f"{target.model.provider} does not show guards what it sends")

    def leave(self, target: Target, terminal: Done | Error, response: ResponseHead | None) -> None:
        """Do nothing when an attempt ends."""

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body after all guards have checked it.

        Raises ProviderFailure or UsageError to refuse the request.
        """
        for guard in self.guards:
            try:
                guard.check_length(self.call)
                body, did = guard.checked(body)
            except (ProviderFailure, UsageError):
                self._note(guard, "refused a request")
                raise
            except (Exception, SystemExit) as error:
                self._note(guard, "failed, and so refused a request")
                log.exception("the guard %r failed (call %s)", guard.name, self.call.id)
                why = "the guard failed, so the request was not sent"
                raise guard.refusal(why, StreamErrorKind.INTERNAL) from error
            if did:
                self._note(guard, did)
        return body

    def tags(self) -> list[str]:
        """Return a ledger tag for each guard that changed or refused a request."""
        return [f"{GUARD_TAG}{name}" for name in self.acted]

    def _note(self, guard: Guard, what: str) -> None:
        self.acted[guard.name] = None
        owner = self.owner or "a key without a name"
        log.warning("the guard %r %s of %r (call %s)", guard.name, what, owner, self.call.id)


@define(frozen=True)
class Prepared:
    """The last item of `Call.guards`: calls a function once the guards have checked a request.

    It is used for large requests, which are converted and checked in a thread; the function is
    called in the event loop `loop`.
    """

    told: Callable[[], None]
    loop: AbstractEventLoop = field(factory=get_running_loop)
    is_quick: ClassVar = False

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body unchanged."""
        self.loop.call_soon_threadsafe(self.told)
        return body


@cache
def _installed() -> dict[str, EntryPoint]:
    """Return the entry points of installed guards by name."""
    return {one.name: one for one in entry_points(group=GROUP)}


def _plugin_of(of: RequestGuard) -> PluginGuard:
    entry = _installed().get(str(of.plugin))
    if entry is None:
        names = ", ".join(sorted(_installed())) or "none"
        raise ValueError(f"no plugin {of.plugin!r} is installed; installed: {names}")
    try:
        made: PluginGuard = entry.load()(**of.settings)
    except (Exception, SystemExit) as error:
        raise ValueError(f"the plugin {of.plugin!r} cannot be used: {error}") from error
    return made


@define
class _Redaction:
    patterns: Iterable[LongSearch]
    replacement: str
    count: int = 0

    def of(self, data: Any, name: str = "", is_own: bool = False) -> Any:
        """Return data with all matches of the patterns in its texts replaced.

        `is_own`: the client defines the content of the data.
        """
        if isinstance(data, str):
            if name in _OPAQUE and not is_own:
                return data
            if name == "arguments":
                return self._of_arguments(data)
            return self._of_text(self._of_medium(data, name))
        if isinstance(data, dict | Mapping):  # the former is found faster
            if is_own:
                return self._of_own(data)
            return {
                key: value
                if isinstance(value, _WITHOUT_TEXTS) and not _is_long(value)
                else self.of(value, key, _is_own(key, value))
                for key, value in data.items()
            }
        if isinstance(data, list | tuple):
            return [
                value
                if isinstance(value, _WITHOUT_TEXTS) and not (is_own or _is_long(value))
                else self.of(value, name, is_own)
                for value in data
            ]
        if isinstance(data, int | float) and not isinstance(data, bool):
            return self._of_number(data) if is_own or _is_long(data) else data
        return data

    def _of_own(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Redact field names and values; if names become equal, underscores distinguish them."""
        redacted: dict[str, Any] = {}
        for key, value in data.items():
            name = self._of_text(key)
            while name in redacted or (name != key and name in data):
                name += "_"
            redacted[name] = self.of(value, key, True)
        return redacted

    def _of_medium(self, text: str, name: str) -> str:
        """Redact the text of a document in base64; return any other text unchanged."""
        found = documents(name, text)
        for at in range(len(found)):
            one = found[at]
            redacted = self._of_text(one.text)
            if redacted != one.text:
                data = redacted.encode(one.encoding, "replace")
                text = one.start + base64.b64encode(data).decode()
                found = documents(name, text)  # as many: the mark is still there
        return text

    def _of_arguments(self, text: str) -> str:
        """Redact the values in a call's arguments, which remain valid JSON."""
        before = self.count
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError):
            return self._of_text(text)
        redacted = self.of(data, is_own=True)
        if self.count > before:
            return msgspec.json.encode(redacted).decode()
        return self._of_text(text)  # also of names, and of values that repeated names replace

    def _of_number(self, number: float) -> int | float | str:
        text = str(number)
        redacted = self._removed(text)
        return number if redacted == text else redacted

    def _of_text(self, text: str) -> str:
        text = self._removed(text)
        if has_one_form(text):
            return text
        for _ in range(MOST_FORMS):
            for shown in other_forms(text):
                redacted = self._removed(shown)
                if redacted != shown:
                    text = redacted  # other matches may be visible in another form only
                    break
            else:
                break
        return text

    def _removed(self, text: str) -> str:
        for pattern in self.patterns:
            text, count = pattern.replaced(text, self.replacement)
            self.count += count
        return text


_WITHOUT_TEXTS = (bool, int, float, NoneType)


def _is_long(value: Any) -> bool:
    """Return True for a number that is larger than those in the options of any API.

    It is content that a client defines, whatever the field: a card number in a document's data, or
    a value in a filter.
    """
    return value is not None and abs(value) >= LONG_NUMBER


def _is_own(name: str, value: Any) -> bool:
    """Return True if the client defines a field's content.

    Return False for a field `input` that contains messages, whose own fields are checked.
    """
    return name in _CLIENTS_OWN and (name != "input" or isinstance(value, Mapping))


@define(frozen=True)
class _Words:
    """Blocked words in normalised form, and a search for them as whole words."""

    words: tuple[str, ...]
    search: LongSearch

    @classmethod
    def made(cls, words: Iterable[str]) -> _Words:
        plain = tuple(map(_plain, words))
        found = "|".join(map(re.escape, plain))
        pattern = re.compile(rf"(?<![^\W_])(?:{found})(?![^\W_])")
        return cls(plain, LongSearch(pattern, max(map(len, plain))))

    def are_in(self, text: str) -> bool:
        """Return True if a normalised text has a blocked word."""
        for word in self.words:
            if word in text:  # the search is slow, and few texts have one of the words
                return self.search.is_in(text)
        return False


def _place_of(words: _Words, body: Any) -> str | None:
    """Return the path of the first text or name that has one of the words."""
    for place, text in _texts(body):
        found = documents(str(place[1]) if place is not None else "", text)
        for said in (text, *(one.text for one in found)):
            if any(map(words.are_in, plain_forms(said))):
                return _written(place)
            for plain in unescaped(said) if "\\" in said else ():
                if any(map(words.are_in, plain_forms(plain))):
                    return _written(place)
    return None


def _plain(word: str) -> str:
    """Normalise a word in the `block` list of a guard, for comparison with normalised texts."""
    *_, last = plain_forms(word)
    return last


_Place = tuple[Any, Any] | None
"""A place in a request: its container's place, and the name or index in it (`None`: the request).
"""


def _texts(data: Any) -> Iterator[tuple[_Place, str]]:
    """Yield the texts and the field names in data, each with its path."""
    left: list[tuple[_Place, Any]] = [(None, data)]
    while left:
        place, one = left.pop()
        if isinstance(one, str):
            yield place, one
        elif isinstance(one, dict | Mapping):
            for name, value in one.items():
                yield place, str(name)
                if not isinstance(value, _WITHOUT_TEXTS):
                    left.append(((place, str(name)), value))
        elif isinstance(one, list | tuple):
            for number, value in enumerate(one):
                if not isinstance(value, _WITHOUT_TEXTS):
                    left.append(((place, number), value))


def _written(place: _Place) -> str:
    """Format a path as text, such as `messages[0].content`."""
    parts: list[str] = []
    while place is not None:
        place, at = place
        parts.append(f"[{at}]" if isinstance(at, int) else f".{at}")
    return "".join(reversed(parts)).removeprefix(".") or "the request"
