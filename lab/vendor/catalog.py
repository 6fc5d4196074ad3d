"""The models that the vendor serves: windows, prices and how they think.

Prices are USD per million tokens, from the vendors' price pages of November 2026. An id without a
row is its family's newest model where the rules know the family, and `UNLISTED` otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from lab.vendor import judging

__all__ = ["MODELS", "UNLISTED", "Model", "model_of"]

Thinks = Literal["never", "on request", "by default", "always"]


@dataclass(frozen=True, slots=True)
class Model:
    """A model, and what its tokens cost.

    `write` is the price of a short cache write (5 or 30 minutes), `write_long` of a long one (1 or
    12 hours); 0 for models that do not bill writes apart from other input. `long_from` is the
    prompt size in tokens above which the whole request costs `long_input` times the input prices
    and `long_output` times the output price; `None`: one price. `shows` is true for models whose
    answers show their thoughts by default, `binds` for models that refuse a thought after another
    prefix than it was produced after.
    """

    id: str
    vendor: str
    input: float
    output: float
    cached: float
    write: float = 0.0
    write_long: float = 0.0
    window: int = 1_000_000
    most_output: int = 128_000
    thinks: Thinks = "never"
    shows: bool = True
    long_from: int | None = None
    long_input: float = 2.0
    long_output: float = 1.5
    cache_from: int = 1_024
    binds: bool = False


def _claude(
    id: str,
    input: float,
    output: float,
    cached: float,
    *,
    window: int = 1_000_000,
    most_output: int = 128_000,
    thinks: Thinks = "by default",
    shows: bool = False,
    long_from: int | None = None,
    long_input: float = 1.0,
    long_output: float = 1.0,
    cache_from: int = 1_024,
) -> Model:
    return Model(
        id,
        "anthropic",
        input,
        output,
        cached,
        write=input * 1.25,
        write_long=input * 2,
        window=window,
        most_output=most_output,
        thinks=thinks,
        shows=shows,
        long_from=long_from,
        long_input=long_input,
        long_output=long_output,
        cache_from=cache_from,
        binds=re.search(r"-5-[125]$|haiku-5-5", id) is not None,
    )


def _gpt(
    id: str,
    input: float,
    output: float,
    cached: float,
    *,
    write: float = 0.0,
    write_long: float = 0.0,
    window: int = 1_050_000,
    thinks: Thinks = "by default",
    long_from: int | None = 272_000,
) -> Model:
    return Model(
        id,
        "openai",
        input,
        output,
        cached,
        write=write,
        write_long=write_long,
        window=window,
        thinks=thinks,
        shows=False,
        long_from=long_from,
    )


def _gemini(
    id: str,
    input: float,
    output: float,
    *,
    thinks: Thinks = "by default",
    long_from: int | None = None,
    long_output: float = 1.5,
) -> Model:
    return Model(
        id,
        "gemini",
        input,
        output,
        round(input / 10, 6),
        window=1_048_576,
        most_output=65_536,
        thinks=thinks,
        shows=False,
        long_from=long_from,
        long_output=long_output,
        cache_from=2_048,
    )


_ROWS = (
    _gpt("gpt-6.2-astra", 8, 40, 0.4, write=10, write_long=20, thinks="always"),
    _gpt("gpt-6.2-sol", 2, 10, 0.1, write=2.5, write_long=5, thinks="always"),
    _gpt("gpt-6-astra", 10, 50, 1, write=12.5, write_long=25, thinks="always"),
    _gpt("gpt-6.1-sol", 2, 10, 0.1, write=2.5, write_long=5, thinks="always"),
    _gpt("gpt-6.1-terra", 1, 5, 0.05, write=1.25, write_long=2.5),
    _gpt("gpt-6-sol", 2, 10, 0.2, write=2.5, write_long=5),
    _gpt("gpt-6-luna", 0.1, 0.5, 0.01, write=0.125, write_long=0.25),
    _gpt("gpt-5.6-sol", 4, 20, 0.4, write=5, write_long=10),
    _gpt("gpt-5.6-terra", 2, 12, 0.2, write=2.5, write_long=5),
    _gpt("gpt-5.6-luna", 0.2, 1.2, 0.02, write=0.25, write_long=0.5),
    _gpt("gpt-5.5", 5, 30, 0.5),
    _gpt("gpt-5.5-pro", 30, 180, 30, thinks="always"),
    _gpt("gpt-5.4", 2.5, 15, 0.25, thinks="on request"),
    _gpt("gpt-5.4-mini", 0.75, 4.5, 0.075, window=400_000, thinks="on request", long_from=None),
    _gpt("gpt-5.4-nano", 0.2, 1.25, 0.02, window=400_000, thinks="on request", long_from=None),
    _gpt("gpt-5.2", 1.75, 14, 0.175, window=400_000, thinks="on request", long_from=None),
    _gpt("gpt-5.1", 1.25, 10, 0.125, window=400_000, thinks="on request", long_from=None),
    _gpt("gpt-5", 1.25, 10, 0.125, window=400_000, thinks="always", long_from=None),
    _gpt("gpt-5-mini", 0.25, 2, 0.025, window=400_000, thinks="always", long_from=None),
    _gpt("gpt-5-nano", 0.05, 0.4, 0.005, window=400_000, thinks="always", long_from=None),
    _gpt("o3", 2, 8, 0.5, window=200_000, thinks="always", long_from=None),
    _gpt("gpt-4.1", 2, 8, 0.5, window=1_047_576, thinks="never", long_from=None),
    _gpt("gpt-4.1-mini", 0.4, 1.6, 0.1, window=1_047_576, thinks="never", long_from=None),
    _gpt("gpt-4o", 2.5, 10, 1.25, window=128_000, thinks="never", long_from=None),
    _gpt("gpt-4o-mini", 0.15, 0.6, 0.075, window=128_000, thinks="never", long_from=None),
    _claude("claude-fable-5-2", 8, 40, 0.2, thinks="always", cache_from=512),
    _claude("claude-mythos-5-2", 8, 40, 0.2, thinks="always", cache_from=512),
    _claude("claude-fable-5-1", 10, 50, 0.25, thinks="always"),
    _claude("claude-fable-5", 10, 50, 1, thinks="always"),
    _claude("claude-opus-5-5", 4, 20, 0.2, thinks="always", cache_from=512),
    _claude("claude-opus-5", 5, 25, 0.5),
    _claude("claude-opus-4-8", 5, 25, 0.5, thinks="on request"),
    _claude("claude-opus-4-7", 5, 25, 0.5, thinks="on request"),
    _claude("claude-opus-4-6", 5, 25, 0.5, thinks="on request", shows=True),
    _claude("claude-opus-4-5", 5, 25, 0.5, window=200_000, most_output=64_000,
            thinks="on request", shows=True),
    _claude("claude-sonnet-5-5", 2, 10, 0.1, cache_from=512),
    _claude("claude-sonnet-5", 2, 10, 0.2),
    _claude("claude-sonnet-4-6", 3, 15, 0.3, thinks="on request", shows=True),
    _claude("claude-sonnet-4-5", 3, 15, 0.3, window=200_000, most_output=64_000,
            thinks="on request", shows=True),
    _claude("claude-haiku-5-5", 0.1, 0.5, 0.01, long_from=100_000, long_input=5.0,
            long_output=5.0, cache_from=512),
    _claude("claude-haiku-4-5", 1, 5, 0.1, window=200_000, most_output=64_000,
            thinks="on request", shows=True),
    _gemini("gemini-4-argon", 2, 10, thinks="always"),
    _gemini("gemini-3.8-flash", 0.75, 3.75, thinks="always"),
    _gemini("gemini-3.7-flash", 0.75, 3.75, thinks="always"),
    _gemini("gemini-3.6-flash", 0.75, 3.75),
    _gemini("gemini-3.5-flash", 1.5, 9),
    _gemini("gemini-3.5-flash-lite", 0.3, 2.5),
    _gemini("gemini-3.1-pro-preview", 2, 12, thinks="always", long_from=200_000),
    _gemini("gemini-3-flash-preview", 0.5, 3),
    _gemini("gemini-3.1-flash-lite", 0.25, 1.5),
    _gemini("gemini-2.5-pro", 1.25, 10, thinks="always", long_from=200_000),
    _gemini("gemini-2.5-flash", 0.3, 2.5),
    _gemini("gemini-2.5-flash-lite", 0.1, 0.4, thinks="on request"),
    Model("command-a-03-2025", "cohere", 2.5, 10, 2.5, window=256_000, most_output=8_000),
    Model("command-a-reasoning-08-2025", "cohere", 2.5, 10, 2.5, window=256_000,
          most_output=32_000, thinks="by default"),
    Model("command-r7b-12-2024", "cohere", 0.0375, 0.15, 0.0375, window=128_000,
          most_output=4_000),
    Model("amazon.nova-pro-v1:0", "bedrock", 0.8, 3.2, 0.2, window=300_000, most_output=10_000),
    Model("amazon.nova-lite-v1:0", "bedrock", 0.06, 0.24, 0.015, window=300_000,
          most_output=10_000),
    Model("amazon.nova-2-lite-v1:0", "bedrock", 0.3, 2.5, 0.075, thinks="on request"),
    Model("text-embedding-3-small", "openai", 0.02, 0, 0, window=8_192),
    Model("text-embedding-3-large", "openai", 0.13, 0, 0, window=8_192),
    Model("mistral-large-latest", "mistral", 0.5, 1.5, 0.05, window=256_000),
    Model("mistral-medium-latest", "mistral", 1.5, 7.5, 0.15, window=128_000),
    Model("mistral-small-latest", "mistral", 0.15, 0.6, 0.015, window=128_000),
    Model("qwen3", "ollama", 0, 0, 0, window=40_960, thinks="by default"),
    Model("gpt-oss", "ollama", 0, 0, 0, window=131_072, thinks="always"),
    Model("deepseek-r1", "ollama", 0, 0, 0, window=131_072, thinks="by default"),
    Model("llama3.2", "ollama", 0, 0, 0, window=131_072),
    Model("deepseek-flash", "deepseek", 0.15, 0.6, 0.003, thinks="by default"),
    Model("deepseek-v4-pro", "deepseek", 0.66, 1.98, 0.022, thinks="by default"),
)  # fmt: skip

MODELS: dict[str, Model] = {row.id: row for row in _ROWS}
"""The rows, by id."""

UNLISTED = Model("unlisted", "any", 1.0, 4.0, 0.1, window=200_000, cache_from=1_024)
"""The row of an id that nothing is known about; `model_of` fills in its `vendor` and `id`."""

_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8})$")
_REGION = re.compile(r"^(us|eu|apac|jp|au|global|us-gov)\.")


def model_of(provider: str, id: str) -> Model:
    """Return the row of a model, under the requested id."""
    newest = judging.judged_as(provider, id)
    for name in (*_names(provider, id), *_names(provider, newest)):
        if name in MODELS:
            return _in_region(replace(MODELS[name], id=id), provider)
    return replace(UNLISTED, id=id, vendor=provider)


def _in_region(model: Model, provider: str) -> Model:
    """Return a model at its price in one region: Claude costs 10 % more there than globally."""
    region = _REGION.match(model.id) if provider == "bedrock" else None
    if region is None or region.group(1) == "global" or model.vendor != "anthropic":
        return model
    factor = Decimal("1.1")

    def dearer(price: float) -> float:
        return float(Decimal(str(price)) * factor)

    return replace(
        model,
        input=dearer(model.input),
        output=dearer(model.output),
        cached=dearer(model.cached),
        write=dearer(model.write),
        write_long=dearer(model.write_long),
    )


def _names(provider: str, id: str) -> list[str]:
    """Return the ids under which a model may be listed, most specific first."""
    names = [id, _DATE.sub("", id)]
    if id.startswith("ft:"):
        names.append(id.split(":")[1])
    if provider == "bedrock":
        plain = _REGION.sub("", id.rsplit("/", 1)[-1])
        names.append(plain)
        without_version = re.sub(r"-v\d+(:\d+)?$", "", plain)
        names.append(_DATE.sub("", without_version.removeprefix("anthropic.")))
        names.append(without_version.removeprefix("openai."))
    if provider == "ollama":
        names.append(id.split(":")[0])
    if id.endswith("-latest"):
        names.append(id.removesuffix("-latest"))
    return names
