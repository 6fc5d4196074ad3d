"""Count how many mutants of providers the conformance kit finds: `make mutants`.

The mutants are made of the sound provider of the kit's tests, of what the template renders and of
providers of this repository: by rule (`swink_testing.mutants`), and of the first two by hand too.
Those that change nothing that a caller or an API could notice are listed with the reason, beside
the kit's tests. The exit code is 1 where fewer are found than `docs/how-to/check-a-provider.md`
states. With `--sample 120`, so many of each provider's are tried, the same ones every time.
Several providers are tried at a time, one for each processor, each in its own process.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import msgspec

from swink_core import Host
from swink_testing.conformance import Subject
from swink_testing.mutants import MUTANT_CHECKS, Mutant, edited, killed_by, mutants_of

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "contrib/swink-testing/tests"
EQUIVALENT = TESTS / "equivalent_mutants.toml"
BY_HAND = TESTS / "handwritten_mutants.toml"
SOUND = TESTS / "fixtures/conformance"
OWN_NAMES = ROOT / "plugins/swink-provider-openai/tests/fixtures"
PAGE = ROOT / "docs/how-to/check-a-provider.md"

_OF_ROWS = ("expected_messages", "errors", "listed_requests")

ROWS = [check for check in MUTANT_CHECKS if check.name in _OF_ROWS]
"""The checks of rows, which other providers of the same class have too."""

LEAST = 0.95
"""The share of a provider's mutants that has to be found, whatever the page states."""


class Tried(NamedTuple):
    """A provider: its name in the page's table, its entry point, the modules that are mutated,
    functions that are left out, which are neither request, parser nor errors, and the name that the
    provider is installed by, where `PROVIDERS` has another."""

    title: str
    value: str
    modules: tuple[str, ...]
    without: tuple[str, ...] = ()
    name: str | None = None

    @property
    def others(self) -> Iterator[str]:
        """The other installed providers with this class: the parts that only their dialects use are
        tested by the quick checks.
        """
        found = entry_points(group="swink.providers")
        return (each.name for each in found if each.value == self.value)


def _modules(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{package}.{name}" for name in names)


PROVIDERS = {
    "sound": Tried(
        "the correct provider in the kit's own tests", "sound_provider:Sound", ("sound_provider",)
    ),
    "acme": Tried(
        "the package that `swink new --kind sse` creates",
        "swink_provider_acme:Acme",
        ("swink_provider_acme.plugin",),
    ),
    "cohere": Tried(
        "Cohere",
        "swink_provider_cohere:CohereProvider",
        _modules("swink_provider_cohere", "parser", "converter", "provider"),
    ),
    "ollama": Tried(
        "Ollama",
        "swink_provider_ollama:OllamaProvider",
        _modules("swink_provider_ollama", "parser", "conversion", "provider"),
        # other requests to the server, and its address
        ("list_models", "_respond", "learned", "_learn", "_ask", "base_url"),
    ),
    "mistral": Tried(
        "Mistral",
        "swink_provider_mistral:MistralProvider",
        ("swink_provider_mistral.provider",),
    ),
    "anthropic": Tried(
        "Anthropic",
        "swink_provider_anthropic:AnthropicProvider",
        _modules(
            "swink_provider_anthropic",
            *("claude", "converter", "errors", "marks"),
            *("parameters", "parser", "provider", "schemas"),
        ),
        ("mark_paths",),  # called by Bedrock's package alone
    ),
    "openai": Tried(
        "OpenAI",
        "swink_provider_openai:OpenAIProvider",
        _modules(
            "swink_provider_openai",
            *("chat", "converter", "errors", "finish", "parameters"),
            *("parser", "pieces", "schemas", "usage"),
        ),
    ),
    "responses": Tried(
        "OpenAI's Responses API",
        "swink_provider_openai:OpenAIProvider",
        _modules(
            "swink_provider_openai",
            *("either", "free_text", "provider", "terms"),
            *("responses.agent", "responses.api", "responses.calls", "responses.converter"),
            *("responses.facts", "responses.hosted", "responses.items", "responses.parser"),
        ),
        # how it is sent, what is known of the server, and what classes and models.toml may say
        ("_respond", "exchange", "learned", "_has_only_chat", "__init_subclass__", "_check_places"),
        "openai",
    ),
    "services": Tried(
        "the parts of OpenAI's package for single services",
        "swink_provider_openai:OpenAIProvider",
        _modules(
            "swink_provider_openai", "beside", "cache_marks", "choice", "dialect", "reasoning"
        ),
        # what models.toml may say
        ("of", "check_places", "_words", "_check_words", "_meant"),
        "openai",
    ),
    "own-names": Tried(
        "a service with other field names than OpenAI's",
        "own_names:OwnNames",
        _modules("swink_provider_openai", "promises", "renamed"),
        ("refuse_idle_overrides",),  # what classes may not say
    ),
    "gemini": Tried(
        "Gemini",
        "swink_provider_gemini:GeminiProvider",
        _modules(
            "swink_provider_gemini",
            *("arguments", "converter", "errors", "parameters", "parser", "provider", "usage"),
        ),
    ),
    "azure": Tried(
        "Azure",
        "swink_provider_azure:AzureProvider",
        ("swink_provider_azure.provider",),
        ("credential", "sign"),  # the tokens of Entra ID
    ),
    "xai": Tried("xAI", "swink_provider_xai:XAIProvider", ("swink_provider_xai.provider",)),
    "vertex": Tried(
        "Vertex AI",
        "swink_provider_gemini:VertexProvider",
        _modules("swink_provider_gemini", "claude", "mistral", "partners", "vendors", "vertex"),
        # Google Cloud's credentials
        ("credential", "sign", "_add_project", "fetch", "_fetch", "_seconds_left", "_failed"),
    ),
    "claude-code": Tried(
        "Claude Code",
        "swink_provider_claude_code:ClaudeCodeProvider",
        _modules("swink_provider_claude_code", "parser", "prompt", "provider"),
        # how the command is run
        ("command", "exchange", "_word", "_turn", "_file", "_encoded"),
    ),
    "proxy": Tried(
        "`proxy`, the client of the gateway",
        "swink_provider_proxy:ProxyProvider",
        _modules("swink_provider_proxy", "provider", "forwarding"),
    ),
    "bedrock": Tried(
        "Bedrock",
        "swink_provider_bedrock:BedrockProvider",
        _modules(
            "swink_provider_bedrock",
            *("converter", "errors", "facts", "media", "parameters"),
            *("parser", "points", "provider", "wire"),
        ),
        # where it is sent, and who signs it
        ("credential", "sign", "base_url", "_region", "_is_signed"),
    ),
}


def subject_of(name: str, value: str) -> Subject:
    """Return a provider that need not be installed."""
    point = EntryPoint(name, value, "swink.providers")
    dist = SimpleNamespace(name=f"swink-provider-{name}", version="0")
    entry = SimpleNamespace(name=name, group=point.group, value=value, load=point.load, dist=dist)
    return Subject(name, Host(entry_points=[entry], environ={}))


def render(folder: str) -> str:
    """Render the template, and return where its package is."""
    from cookiecutter.main import cookiecutter

    made = cookiecutter(
        str(ROOT / "cookiecutter-provider"),
        no_input=True,
        default_config=True,
        extra_context={"name": "acme", "kind": "sse"},
        output_dir=folder,
    )
    return str(Path(made) / "src")


def by_hand(tried: Tried) -> Iterator[Mutant]:
    """Yield a provider's mutants that people wrote."""
    for row in msgspec.toml.decode(BY_HAND.read_bytes())["mutants"]:
        if row["module"] in tried.modules:
            yield edited(**row)


def held(title: str) -> list[float]:
    """Return the shares that the page states of a provider, of mutants by rule and by hand; none
    where it has no row of it."""
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines()]
    told = [cell for row in rows if len(row) == 6 and row[1].strip() == title for cell in row[3:5]]
    figures = [re.match(r" *(\d+) of (\d+)\b", cell) for cell in told]
    return [int(figure[1]) / int(figure[2]) if figure else LEAST for figure in figures]


def main() -> int:
    """Try the mutants of the providers that are named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("providers", nargs="*", choices=[*PROVIDERS, []])
    parser.add_argument("--sample", type=int, help="try so many of a provider's mutants by rule")
    given = parser.parse_args()
    names = given.providers or [name for name, tried in PROVIDERS.items() if held(tried.title)]
    if len(names) > 1:
        return _try_each(names, given.sample)
    with tempfile.TemporaryDirectory() as folder:
        sys.path[:0] = [str(SOUND), str(OWN_NAMES), render(folder)]
        return int(not all(_try_all(name, PROVIDERS[name], given.sample) for name in names))


def _try_each(names: Iterable[str], sample: int | None) -> int:
    """Try several providers, those with the longest modules first, and print what each finds."""
    asked = () if sample is None else ("--sample", str(sample))

    def run(name: str) -> int:
        command = [sys.executable, "-m", "lab.mutants.providers", name, *asked]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout, end="", flush=True)
        return done.returncode

    longest_first = sorted(names, key=lambda name: -len(PROVIDERS[name].modules))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return max(pool.map(run, longest_first))


def _try_all(name: str, tried: Tried, sample: int | None) -> bool:
    """Try a provider's mutants, or a sample, and tell whether enough of them are found."""
    point = tried.name or name
    if (broken := killed_by(subject_of(point, tried.value))) is not None:
        print(f"{name} fails {broken} without a mutation")
        return False
    made = [mutant for module in tried.modules for mutant in mutants_of(module)]
    parts = {part for mutant in made for part in _place(mutant)}
    for gone in sorted(set(tried.without) - parts):
        print(f"left out, and not there: {gone}")
    listed = msgspec.toml.decode(EQUIVALENT.read_bytes(), type=dict[str, str])
    equivalent = {each for each in listed if each.startswith(tried.modules)}
    enough = True
    for how, tried_now, least in zip(
        ("by rule", "by hand"),
        ([mutant for mutant in made if not _place(mutant) & {*tried.without}], by_hand(tried)),
        held(tried.title) or (LEAST, LEAST),
        strict=True,
    ):
        mutants = {mutant.name: mutant for mutant in tried_now}
        if asked := sorted(mutants.keys() - equivalent):
            if sample is not None and len(asked) > sample:
                asked = random.Random(0).sample(asked, sample)
            found = sum(_is_found(point, tried, mutants[each]) for each in asked)
            print(
                f"{name}, {how}: {found} of {len(asked)} mutants of {len(mutants)} are found "
                f"({found / len(asked):.1%}, at least {max(least, LEAST):.1%})"
            )
            enough &= found / len(asked) >= max(least, LEAST)
        equivalent -= mutants.keys()
    for gone in sorted(equivalent):
        print(f"listed as equivalent, and not made: {gone}")
    return enough and not equivalent and parts >= {*tried.without}


def _place(mutant: Mutant) -> set[str]:
    """Return the names of the modules, classes and functions that hold a mutant."""
    return set(mutant.name.split(" ")[0].split("."))


def _is_found(name: str, tried: Tried, mutant: Mutant) -> bool:
    with mutant.installed():
        sys.modules.pop(tried.value.partition(":")[0], None)  # one that is built on the mutant
        subjects = [subject_of(each, tried.value) for each in (name, *tried.others)]
        found = killed_by(subjects[0]) is not None
        found = found or any(killed_by(each, ROWS) for each in subjects[1:])
    if not found:
        print(f"survives: {mutant.name}")
    return found


if __name__ == "__main__":
    sys.exit(main())
