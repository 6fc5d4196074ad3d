"""The models of the matrix: models of the catalogue, and invented ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attrs import define

from swink_core import (
    UnknownProvider,
)
from swink_core.providers import Catalog
from swink_judge import Judge

__all__ = ["AskedModel", "models_of"]

_VERSION = re.compile(r"(?<![\d.])(\d{1,2})(?:([.-])(\d{1,2}))?(?![\d.]|b\b|B\b)")
_DATED = re.compile(r"v\d:\d|\d{8}|\d{4}-\d\d-\d\d|\d{4}(?!\d)|-latest|-preview")
_REGION = re.compile(r"^(global|us|eu)\.")
_ISSUE = re.compile(r"-v\d+(:\d+)?$")

_DATES = {
    "openai-chat": "-2026-10-15",
    "anthropic-messages": "-20261015",
    "bedrock-converse": "-20261015-v1:0",
    "gemini-generate-content": "-preview-10-2026",
}
"""The date that is appended to a listed model id to invent a dated one, by wire format."""

_FINE_TUNED = "ft:{}:acme::b7x9"
"""The form of OpenAI's ids of fine-tuned models.

Source: https://platform.openai.com/docs/guides/fine-tuning.
"""

_OPENAI = "openai"


@define(frozen=True)
class AskedModel:
    """A model's id and its origin: `listed`, `dated`, `fine-tuned`, `alias` or `successor`.

    `base` is the listed id from which the id was derived.
    """

    id: str
    origin: str
    base: str


def models_of(catalog: Catalog, provider: str, judge: Judge) -> list[AskedModel]:
    """Return the models to test with a provider, each id once.

    If no models are listed for the provider, the models of a provider with the same rules are used.
    If there is no such provider, the only id is `any`.
    """
    listed = [info.id for info in catalog.models(provider)] or _borrowed(catalog, provider, judge)
    info = catalog.provider(provider)
    date = _DATES.get(info.wire_format) if info else None
    found: dict[str, AskedModel] = {}
    for asked in _all(listed, date, _shares(judge, provider, _OPENAI)):
        found.setdefault(asked.id, asked)
    return list(found.values())


def _all(listed: list[str], date: str | None, tuned: bool) -> Iterator[AskedModel]:
    for id in listed:
        yield AskedModel(id, "listed", id)
        if date and not _DATED.search(id):
            yield AskedModel(id + date, "dated", id)
        if tuned:
            yield AskedModel(_FINE_TUNED.format(id), "fine-tuned", id)
    for id in _newest(listed):
        if alias := _alias(id):
            yield AskedModel(alias, "alias", id)
        for successor in _successors(id):
            yield AskedModel(successor, "successor", id)


def _shares(judge: Judge, provider: str, other: str) -> bool:
    """Return True if most rules of the provider `other` also apply to `provider`."""
    names = [{*rule.provider.split("|")} for rule in judge.rules if other in rule.provider]
    return sum({provider, other} <= each for each in names) > len(names) / 2


def _borrowed(catalog: Catalog, provider: str, judge: Judge) -> list[str]:
    for name in sorted(judge.providers - {provider}):
        if _shares(judge, provider, name):
            try:
                lent = catalog.models(name)
            except UnknownProvider:
                continue
            if lent:
                return [info.id for info in lent]
    return ["any"]


def _newest(listed: Iterable[str]) -> list[str]:
    """Return the newest model of each family, and all models that have no date and no version."""
    families: dict[str, tuple[tuple[int, int], str]] = {}
    for id in listed:
        match = _VERSION.search(id)
        version = (int(match[1]), int(match[3] or 0)) if match else (0, 0)
        family = _REGION.sub("", id)
        if match:
            family = _DATED.sub("", family.replace(match[0], "*", 1))
            family = _ISSUE.sub("", family).rstrip("-:")
        if family not in families or families[family][0] < version:
            families[family] = (version, id)
    return [id for _, id in families.values()]


def _successors(id: str) -> list[str]:
    """Return invented successors of a model family: one minor and two major versions."""
    match = _VERSION.search(id)
    if match is None:
        return []
    major, between, minor = int(match[1]), match[2] or ".", int(match[3] or 0)
    names = (f"{major}{between}{minor + 1}", f"{major + 1}", f"{major + 1}{between}5")
    return [id[: match.start()] + name + id[match.end() :] for name in names]


def _alias(id: str) -> str | None:
    id = id.removesuffix("-preview")
    match = _VERSION.search(id)
    if match is None or _DATED.search(id):
        return None
    return re.sub(r"[-.]+(?=[-.]|$)", "", id[: match.start()] + id[match.end() :]) + "-latest"
