"""The rules of APIs, and the judge that finds the rules which a request violates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import msgspec

from swink_judge.paths import Holds, condition, steps_of

__all__ = ["OWN_RULES", "Family", "Judge", "Rule", "all_families", "all_rules", "rules_of"]

OWN_RULES = "request_rules.jsonl"
"""The name of the rules file in a provider's package."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of an API, which rejects requests that fulfil all conditions in `when`.

    `provider` and `api` are names separated by `|`; `*` matches any name. `model` and
    `unless_model` are regular expressions that are searched for in the model id. For a fine-tuned
    model, `model` is also searched for in the id of the base model. A condition is
    `[path, operator, value, absent]`. In a path, `tools[*]` stands for every element of the list
    `tools`, and `messages[-1]` for the last element of `messages`. A condition is true if its
    operator accepts at least one of the values at the path; with `absent`, also if the path has no
    value. The operator `unlisted` accepts a value that occurs at none of the paths in `value`, such
    as the name of an unknown tool. `status` is the HTTP status of the server, or 200 if the server
    ignores the value silently. `confidence` is `measured` if the source quotes the server's
    message, `documented` if the source is the vendor's documentation, and `reported` for any other
    source. `checked` is the ISO date of the last comparison with the source.
    """

    id: str
    provider: str
    api: str
    model: str
    when: list[list[Any]]
    status: int
    message: str
    source: str
    confidence: str
    checked: str
    unless_model: str | None = None

    def __post_init__(self) -> None:
        date.fromisoformat(self.checked)

    @property
    def refuses(self) -> bool:
        """Whether the server rejects the request; otherwise it silently ignores a value."""
        return self.status != 200

    @property
    def is_retirement(self) -> bool:
        """Whether the rule rejects a retired model. Other servers may still serve it."""
        return "retired" in self.id

    def concerns(self, provider: str, api: str, model: str) -> bool:
        """Return True if this rule applies to this provider, API and model."""
        if provider not in self.provider.split("|") or not {"*", api} & {*self.api.split("|")}:
            return False
        if not (re.search(self.model, model) or re.search(self.model, _base_of(model))):
            return False
        return not (self.unless_model and re.search(self.unless_model, model))


def _base_of(model: str) -> str:
    """Return the id of the base model of a fine-tuned model; return any other id unchanged."""
    return model.split(":")[1] if model.startswith("ft:") else model


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model family. The rules for the newest model apply to unknown ids of the family.

    `provider`, `model` and `unless_model` have the same form as in a rule. `unless_model` matches
    the existing models of the family, which have their own rules. `newest` is the newest existing
    model, according to `source`.
    """

    id: str
    provider: str
    model: str
    unless_model: str
    newest: str
    source: str

    def lacks(self, provider: str, model: str) -> bool:
        """Return True if the model belongs to this family but is not among the existing models."""
        return (
            provider in self.provider.split("|")
            and re.search(self.model, model) is not None
            and re.search(self.unless_model, model) is None
        )


class _Compiled:
    """A compiled rule. To save time, it checks first whether a request has the needed fields."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    @cached_property
    def needs(self) -> set[str | int | None]:
        return {
            steps_of(path)[0]
            for path, op, *more in self.rule.when
            if op != "absent" and not (len(more) > 1 and more[1])
        }

    @cached_property
    def conditions(self) -> list[Holds]:
        return [condition(*row) for row in self.rule.when]

    def refuses(self, body: Any) -> bool:
        return self.needs <= body.keys() and all(met(body) for met in self.conditions)


_decode = msgspec.json.Decoder(Rule).decode_lines


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return the rules in this package, in the order of their files."""
    folder = sorted((files(__package__) / "rules").iterdir(), key=lambda file: file.name)
    return tuple(rule for file in folder for rule in _decode(file.read_bytes()))


@cache
def all_families() -> tuple[Family, ...]:
    """Return the model families in this package."""
    file = files(__package__) / "families.jsonl"
    return tuple(msgspec.json.Decoder(Family).decode_lines(file.read_bytes()))


def rules_of(package: str) -> list[Rule]:
    """Return the rules in the `request_rules.jsonl` of a provider's package.

    Raises msgspec.DecodeError for a file that cannot be read.
    """
    file = files(package) / OWN_RULES
    return _decode(file.read_bytes()) if file.is_file() else []


class Judge:
    """Finds the rules that a request violates; `rules` are those of this package by default."""

    def __init__(self, rules: Iterable[Rule] | None = None) -> None:
        self.rules = all_rules() if rules is None else tuple(rules)
        self._concerned: dict[tuple[str, str, str], list[_Compiled]] = {}

    @cached_property
    def _compiled(self) -> list[_Compiled]:
        return [_Compiled(rule) for rule in self.rules]

    @cached_property
    def providers(self) -> frozenset[str]:
        """The providers for which there are rules."""
        return frozenset(name for rule in self.rules for name in rule.provider.split("|"))

    @cached_property
    def _apis(self) -> frozenset[tuple[str, str]]:
        """Pairs of a provider and an API (or `*`) for which there are rules."""
        return frozenset(
            (name, api)
            for rule in self.rules
            for name in rule.provider.split("|")
            for api in rule.api.split("|")
        )

    def has_rules(self, provider: str, api: str) -> bool:
        """Return True if there are rules for an API.

        Without rules, an empty result of `refusals` does not mean that the API accepts the request.
        """
        return not self._apis.isdisjoint({(provider, api), (provider, "*")})

    def judged_as(self, provider: str, model: str) -> str:
        """Return the model id whose rules apply to a given id.

        For an unknown id of a model family, this is the id of the family's newest model.
        """
        base = _base_of(model)
        found = (family for family in all_families() if family.lacks(provider, base))
        family = next(found, None)
        return model if family is None else family.newest

    def refusals(self, provider: str, api: str, model: str, body: Any) -> list[Rule]:
        """Return the rules that refuse a request body, given as JSON data."""
        asked = (provider, api, model)
        if asked not in self._concerned:
            known = self.judged_as(provider, model)
            rules = (each for each in self._compiled if each.rule.concerns(provider, api, known))
            self._concerned[asked] = list(rules)
        return [compiled.rule for compiled in self._concerned[asked] if compiled.refuses(body)]
