"""`Settings`: the models, prompts and limits of a batch run; `Job` is a subclass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from attrs import define, field

from swink import AnswerStream, Client, Prompt
from swink_batch.forms import Form
from swink_batch.journal import Journal, engine_of
from swink_batch.limits import Turns
from swink_batch.spending import check_limits
from swink_core import EventStream, InvalidModel, InvalidOption, Limits, Model, Options, UsageError

__all__ = ["CONCURRENCY", "Settings", "check_one_of"]

CONCURRENCY = 256
"""The default maximum number of concurrent calls to a target."""

Via: TypeAlias = Literal["calls", "batch"]

NOT_OPTIONS = frozenset({"self", "model", "context", "type"})
"""Parameters of a call that `options` must not contain: the job or the rows set them."""

UNSAID = frozenset({"api_key", "headers", "base_url", "retry", "timeouts", "transport"})
"""Options that do not affect answers, or are confidential; the journal does not store them."""


def _chain(given: Any) -> list[Any]:
    chain = [*given] if isinstance(given, list | tuple) and not _is_pair(given) else [given]
    if not chain:
        raise InvalidModel(
            "the list of models is empty", resolution="Pass a model, such as acme/large."
        )
    for each in chain:
        model = each[0] if _is_pair(each) else each
        if not isinstance(model, str | Model):
            raise InvalidModel(
                "a model is a name, a Model, or a pair of one and its options, "
                f"not one of type {type(model).__name__}",
                resolution="Write provider/id, such as acme/large, or a list for a fallback chain.",
            )
    return chain


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping)


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in UNSAID}


def _options(job: Settings, attribute: Any, value: Mapping[str, Any]) -> None:
    if taken := sorted(NOT_OPTIONS & value.keys()):
        raise InvalidOption(
            f"no option {taken[0]!r}",
            resolution="Models and a type are set on the job; prompts come from the rows.",
        )


def _shard(value: Any) -> tuple[int, int]:
    number, count = value
    if not 1 <= number <= count:
        raise UsageError(
            f"shard {number} of {count} does not exist",
            resolution="Shards are numbered from 1: 1/4, 2/4, 3/4, 4/4.",
        )
    return int(number), int(count)


def _template(job: Settings, attribute: Any, value: str | None) -> None:
    Form(value)


def check_one_of(name: str, kind: Any, value: object) -> None:
    """Raise UsageError unless the value is one of those that the `Literal` type `kind` lists."""
    if value not in (allowed := get_args(kind)):
        raise UsageError(
            f"{name} is {value!r}", resolution=f"Give {' or '.join(map(repr, allowed))}."
        )


def _via(job: Settings, attribute: Any, value: object) -> None:
    check_one_of("via", Via, value)


def _turns(job: Settings, attribute: Any, value: object) -> None:
    if value is not None and not isinstance(value, Turns):
        raise UsageError(
            f"turns must have the methods of Turns, unlike {type(value).__name__}",
            resolution="Give swink_batch.shared.RedisTurns(url).",
        )


def _cancel(job: Settings, attribute: Any, value: bool) -> None:
    if value and job.via != "batch":
        raise UsageError(
            "--cancel applies only to submitted batches, but these rows are sent in calls",
            resolution="Add --via batch, with which the rows were submitted (via='batch'), or "
            "omit --cancel.",
        )


def _limits(job: Settings, attribute: Any, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, Limits):
        raise UsageError(
            f"limits is of type {type(value).__name__}", resolution="Give swink.Limits(cost=…)."
        )
    check_limits(value)


def _positive(job: Settings, attribute: Any, value: float | None) -> None:
    if value is not None and not value > 0:  # NaN also fails this test
        raise UsageError(f"{attribute.name} is {value}", resolution="Pass a number above 0.")


@define(frozen=True, kw_only=True)
class Settings:
    """The models, prompts and limits of a batch run.

    `models` is a model, or a list of models (a fallback chain); each is optionally paired with its
    options. `prompt` is a template whose fields in braces, `{text}`, are replaced by a row's values
    (`None`: each row has its own `prompt` or `messages`); `type` is the type of the answers, and
    `options` are the options of each call. `id_field` is the field that identifies rows.

    At most `concurrency` calls to a model run at a time; `rpm` and `tpm` are known rate limits,
    requests and tokens per minute; `turns` shares these rate limits with other processes (`None`:
    not shared). `limits` restricts the spending of all runs with the same journal: `cost`,
    `tokens`, `requests`.

    `journal` stores the answers: a database (`.db`, `.sqlite`, `.sqlite3`), a folder, or an open
    journal, which stays open; `None` for no journal. Rows that failed in an earlier run are retried
    if the row itself was not the cause of the failure, and otherwise only with `retry_failed`.
    Without `resume`, all rows are sent again, and the new answers replace the old ones. `shard` is
    `(i, n)`: this process handles part i of n processes that share a journal. `client` contains
    arguments for `swink.Client`, such as credentials and addresses.

    `via="batch"` submits all rows to the batch API of the model's vendor, which answers within a
    day at a lower price; options for retries then have no effect. `cancel` cancels the submitted
    batches and keeps the answers received so far.
    """

    models: list[Any] = field(converter=_chain, repr=False)
    prompt: str | None = field(default=None, validator=_template)
    type: Any = None
    options: Mapping[str, Any] = field(factory=dict, validator=_options, repr=False)
    id_field: str = "id"
    concurrency: int = field(default=CONCURRENCY, validator=_positive)
    rpm: float | None = field(default=None, validator=_positive)
    tpm: float | None = field(default=None, validator=_positive)
    turns: Turns | None = field(default=None, validator=_turns, repr=False)
    limits: Limits | None = field(default=None, validator=_limits)
    journal: str | Path | Journal | None = None
    resume: bool = True
    retry_failed: bool = False
    shard: tuple[int, int] = field(default=(1, 1), converter=_shard)
    via: Via = field(default="calls", validator=_via)
    cancel: bool = field(default=False, validator=_cancel)
    client: Mapping[str, Any] = field(factory=dict, repr=False)

    def stream(
        self, client: Client, prompt: Prompt, options: Mapping[str, Any]
    ) -> EventStream | AnswerStream[Any]:
        """Create the stream of a row's call; no request is sent before the stream is read.

        Raises UsageError for invalid options.
        """
        asked: Options = {**options}  # type: ignore[typeddict-item]  # the client checks the names
        models = self.models
        if is_batch := self.via == "batch":  # the vendor answers a row once, so nothing is repeated
            models = [(model, {**own, "retry": False}) for model, own in self._pairs()]
        if self.type is None:
            return client.stream(models, prompt, **asked)
        if is_batch:
            asked = {**asked, "corrections": 0}  # type: ignore[typeddict-unknown-key]
        return client.stream_answer(models, prompt, type=self.type, **asked)

    def open_journal(self) -> Journal | None:
        """Open the journal. Raises UsageError if another job or process uses it."""
        if self.journal is None:
            return None
        if isinstance(self.journal, Journal):
            self.journal.read()  # reads lines that other processes have added
            return self.journal
        return Journal(engine_of(self.journal, self.writer), self.told())

    @property
    def writer(self) -> str:
        """The name of this process in the journal."""
        number, count = self.shard
        return "all" if count == 1 else f"{number}-of-{count}"

    def told(self) -> dict[str, Any]:
        """Return the settings that answers depend on, for the journal's first line."""
        models = [(m[0], _said(m[1])) if _is_pair(m) else m for m in self.models]
        told: dict[str, Any] = {"models": [*map(str, models)], "prompt": self.prompt}
        type_ = repr(self.type) if self.type else None
        return {**told, "options": _said(self.options), "type": type_, "id_field": self.id_field}

    def each_model(self) -> list[str | Model]:
        """Return the models of the chain, without their options."""
        return [model for model, _ in self._pairs()]

    def _pairs(self) -> Iterator[tuple[str | Model, Mapping[str, Any]]]:
        return (model if _is_pair(model) else (model, {}) for model in self.models)
