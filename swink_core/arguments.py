"""Validate the arguments of a call before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import NoneType
from typing import Any
from urllib.parse import urlsplit

import msgspec
from attrs import fields

from swink_core.failures.exceptions import InvalidContext, InvalidOption, UsageError
from swink_core.failures.redaction import address_fault, credentials_in, public_url
from swink_core.vocabulary.habits import CONTEXT_WORDS, in_own_words
from swink_core.vocabulary.messages import Context
from swink_core.vocabulary.models import ProviderInfo
from swink_core.vocabulary.option_table import OPTIONS
from swink_core.vocabulary.options import (
    CacheStrategy,
    RetryPolicy,
    StreamOptions,
    ThinkingLevel,
    Timeouts,
)
from swink_core.vocabulary.outcome import StreamErrorKind

_FIELDS = StreamOptions.names()


def full_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under swink's names.

    Shorthands are replaced by the options for which they stand: `timeout` by `timeouts`. Raises
    InvalidOption if a shorthand has an invalid value or is combined with the option it stands for.
    """
    try:
        options = in_own_words(given)
    except ValueError as error:
        fault, advice = error.args
        raise InvalidOption(fault, resolution=advice) from None
    if (seconds := options.pop("timeout", None)) is not None:
        if options.get("timeouts") is not None:
            raise InvalidOption(
                "timeout and timeouts cannot be combined",
                resolution="Pass only one: timeout=… is short for timeouts=Timeouts(total=…).",
            )
        try:
            options["timeouts"] = Timeouts(total=seconds)
        except ValueError as error:
            raise InvalidOption(str(error).replace("total", "timeout", 1)) from error
    return options


_VALUES = frozenset({str, int, float, bool, bytes, NoneType, ThinkingLevel, StreamErrorKind})

_RECORDS = frozenset({Timeouts, RetryPolicy, CacheStrategy})


def frozen(value: Any, depth: int = 2) -> Hashable:
    """Return a hashable cache key for an option; equal values of the same type have the same key.

    Raises TypeError for data nested deeper than `depth` levels. A target with such options is not
    cached, because a plugin could change the inner data of a cached target.
    """
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]  # it is a string
    if kind in _VALUES:
        return kind, value
    if kind in _RECORDS:
        return kind, *(frozen(getattr(value, each.name)) for each in fields(kind))
    if depth == 0:
        raise TypeError("too deep")
    if kind is dict:
        return kind, *((name, frozen(inner, depth - 1)) for name, inner in value.items())
    if kind in (list, tuple):
        return kind, *(frozen(inner, depth - 1) for inner in value)
    if kind in (set, frozenset):
        return kind, frozenset(frozen(inner, depth - 1) for inner in value)
    raise TypeError(f"a {kind.__name__} may change")


def options_of(values: Mapping[str, Any]) -> StreamOptions:
    """Return the options of a call as `StreamOptions`.

    Raises InvalidOption for an unknown name or an invalid value.
    """
    for name in values:
        if name not in _FIELDS:
            from difflib import get_close_matches

            if name in OPTIONS:
                raise InvalidOption(
                    f"{name} can only be set for a call", resolution="Pass it to each call."
                )
            if name in CONTEXT_WORDS:
                raise InvalidOption(
                    f"no option {name!r}",
                    resolution=f"Pass {name} as context, the second argument.",
                )
            known = sorted(OPTIONS)
            near = next(iter(get_close_matches(name, known)), None)
            raise InvalidOption(
                f"no option {name!r}" + (f"; did you mean {near!r}?" if near else ""),
                resolution=f"Options are {', '.join(known)}.",
            )
    try:
        address_of((options := StreamOptions(**values)).base_url)
    except (TypeError, ValueError) as error:
        raise InvalidOption(str(error)) from None
    return options


def address_of(url: str | None) -> tuple[str, ...]:
    """Normalize a URL, so that different spellings of the same URL compare equal.

    Raises ValueError for an invalid URL.
    """
    try:
        parts = urlsplit(url or "")
    except ValueError:  # the exception's own message may quote a secret
        raise ValueError(f"invalid base_url: {address_fault(url or '')}") from None
    host = parts.netloc.rpartition("@")[2].lower()
    port = ":443" if parts.scheme == "https" else ":80"
    return parts.scheme, host.removesuffix(port), parts.path.rstrip("/")


def check_credentials(
    provider: str, home: str, all_given: StreamOptions, sent: StreamOptions
) -> None:
    """Refuse a call that would send the client's credentials to a base URL given by the call.

    Raises InvalidOption for such a call. Credentials from the environment are not checked here,
    because they are used only if neither the client nor the call has credentials.
    """
    had, has = (credentials_in({"key": o.api_key or "", **o.headers}) for o in (all_given, sent))
    if had and not has:
        raise InvalidOption(
            f"the client's credentials for {provider} are only for {public_url(home)}",
            resolution="Pass api_key along with base_url.",
        )


def check_options(options: StreamOptions) -> None:
    """Raise InvalidOption for options that no provider could accept."""
    for name in ("extra", "settings", "response_format"):
        check_json(getattr(options, name), name, InvalidOption)


def check_choice(options: StreamOptions, context: Context) -> None:
    """Raise InvalidOption if `tool_choice` names a tool that the conversation does not have."""
    choice = options.tool_choice
    if choice in (None, "auto", "none") or "tools" in options.extra:
        return
    names = [tool.name for tool in context.tools]
    if choice == "required" and not names:
        raise InvalidOption(
            "tool_choice is required, but the call has no tools",
            resolution="Pass at least one tool.",
        )
    if choice != "required" and choice not in names:
        raise InvalidOption(
            f"tool_choice names an unknown tool: {choice!r}",
            resolution=f"Use auto, none, required or one of the tools: {', '.join(names) or '-'}.",
        )


def check_settings(provider: str, info: ProviderInfo | None, settings: Mapping[str, Any]) -> None:
    """Raise InvalidOption for a setting that is not declared, or for a value of a wrong type.

    The error lists the settings that the provider declares.
    """
    declared = info.settings if info else {}
    for name, value in settings.items():
        kind = declared.get(name, declared.get("*", ()))
        if not (value in kind if isinstance(kind, tuple) else _SETTINGS[kind](value)):
            from difflib import get_close_matches

            kinds = {n: k if isinstance(k, str) else " or ".join(k) for n, k in declared.items()}
            known = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
            near = [] if kind else get_close_matches(name, [*declared, *StreamOptions.names()], 1)
            raise InvalidOption(
                (f"{provider}: invalid value of setting" if kind else f"{provider} has no setting")
                + f" {name!r}"
                + "".join(f"; did you mean {other!r}?" for other in near),
                resolution=f"Settings are {known}." if known else "",
            )


_SETTINGS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str) and "\0" not in value,
    "strings": lambda value: isinstance(value, list) and all(map(_SETTINGS["string"], value)),
    "integer": lambda value: type(value) is int,
    "boolean": lambda value: type(value) is bool,
    "any": lambda value: True,
}


def expect(
    value: object, kind: Any, what: str, resolution: str, fault: type[UsageError] = InvalidContext
) -> None:
    """Raise an exception of the class `fault` if a value is not an instance of `kind`.

    `what` is the beginning of the error message, such as "limits is".
    """
    if not isinstance(value, kind):
        raise fault(f"{what} of type {type(value).__name__}", resolution=resolution)


def check_json(value: Any, where: str, fault: type[UsageError]) -> None:
    if not value:
        return
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        pass  # half of a surrogate pair, which is repaired before sending
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise fault(
            f"{where} cannot be converted to JSON: {error}",
            resolution="Use dicts, lists, text and numbers.",
        ) from error
