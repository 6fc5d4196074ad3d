"""Count how many mutants of providers the conformance kit finds: `make mutants`.

The mutants are made by rule (`swink_testing.mutants`) of the sound provider of the kit's tests, of
what the template renders and of providers of this repository. Those that change nothing that a
caller or an API could notice are listed with the reason, beside the kit's tests. The exit code is 1
where fewer are found of a provider's than before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import msgspec

from swink_core import Host
from swink_testing.conformance import Subject
from swink_testing.mutants import Mutant, killed_by, mutants_of

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "contrib/swink-testing/tests/equivalent_mutants.toml"
SOUND = ROOT / "contrib/swink-testing/tests/fixtures/conformance"


class Tried(NamedTuple):
    """A provider: its entry point, the modules that are mutated, the share of mutants that has to
    be found, and functions that are left out: they are neither request, parser nor errors."""

    value: str
    modules: tuple[str, ...]
    least: float
    without: tuple[str, ...] = ()


PROVIDERS = {
    "sound": Tried("sound_provider:Sound", ("sound_provider",), 1.0),
    "acme": Tried("swink_provider_acme:Acme", ("swink_provider_acme.plugin",), 0.95),
    "cohere": Tried(
        "swink_provider_cohere:CohereProvider",
        tuple(f"swink_provider_cohere.{part}" for part in ("parser", "converter", "provider")),
        0.95,
    ),
    "ollama": Tried(
        "swink_provider_ollama:OllamaProvider",
        tuple(f"swink_provider_ollama.{part}" for part in ("parser", "conversion", "provider")),
        0.95,
        # what the server is asked besides, and whose it is
        ("list_models", "respond", "_learn", "_ask", "authorize", "base_url"),
    ),
    "mistral": Tried(
        "swink_provider_mistral:MistralProvider", ("swink_provider_mistral.provider",), 0.95
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


def mutants(tried: Tried) -> Iterator[Mutant]:
    """Yield a provider's mutants."""
    for module in tried.modules:
        for mutant in mutants_of(module):
            place = mutant.name.split(" ")[0].split(".")
            if not any(name in place for name in tried.without):
                yield mutant


def main() -> int:
    """Try the mutants of the providers that are named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("providers", nargs="*", choices=[*PROVIDERS, []])
    names = parser.parse_args().providers or list(PROVIDERS)
    equivalent = msgspec.toml.decode(EQUIVALENT.read_bytes(), type=dict[str, str])
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        sys.path[:0] = [str(SOUND), render(folder)]
        for name in names:
            listed = {m for m in equivalent if m.startswith(PROVIDERS[name].modules)}
            failed |= not _try(name, PROVIDERS[name], listed)
    return int(failed)


def _try(name: str, tried: Tried, listed: set[str]) -> bool:
    """Try a provider's mutants, say which survive, and tell whether enough of them are found."""
    made = {mutant.name: mutant for mutant in mutants(tried)}
    for gone in sorted(listed - made.keys()):
        print(f"listed as equivalent, and not tried: {gone}")
    if (broken := killed_by(subject_of(name, tried.value))) is not None:
        print(f"{name} fails {broken} without a mutation")
        return False
    survivors = []
    asked = sorted(made.keys() - listed)
    for each in asked:
        with made[each].installed():
            if killed_by(subject_of(name, tried.value)) is None:
                survivors.append(each)
                print(f"survives: {each}")
    found = 1 - len(survivors) / len(asked)
    print(
        f"{name}: {len(asked) - len(survivors)} of {len(asked)} mutants are found ({found:.1%}, "
        f"at least {tried.least:.0%}); {len(listed)} are equivalent"
    )
    return found >= tried.least and listed <= made.keys()


if __name__ == "__main__":
    sys.exit(main())
