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
import zlib
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
    """A provider: its entry point, the modules that are mutated, one mutant in how many is tried,
    and the share of them that has to be found."""

    value: str
    modules: tuple[str, ...]
    one_in: int
    least: float


PROVIDERS = {
    "sound": Tried("sound_provider:Sound", ("sound_provider",), 1, 1.0),
    "acme": Tried("swink_provider_acme:Acme", ("swink_provider_acme.plugin",), 1, 0.95),
    "cohere": Tried(
        "swink_provider_cohere:CohereProvider",
        tuple(f"swink_provider_cohere.{part}" for part in ("parser", "converter", "provider")),
        5,
        0.76,
    ),
    "ollama": Tried(
        "swink_provider_ollama:OllamaProvider",
        tuple(f"swink_provider_ollama.{part}" for part in ("parser", "conversion", "provider")),
        5,
        0.65,
    ),
    "mistral": Tried(
        "swink_provider_mistral:MistralProvider", ("swink_provider_mistral.provider",), 3, 0.75
    ),
}
"""Of this repository's own providers the kit sees what their recordings show, and no more."""


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


def sampled(modules: tuple[str, ...], share: int) -> Iterator[Mutant]:
    """Yield one mutant in `share`, the same ones every time."""
    for module in modules:
        for mutant in mutants_of(module):
            if zlib.crc32(mutant.name.encode()) % share == 0:
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
    mutants = {mutant.name: mutant for mutant in sampled(tried.modules, tried.one_in)}
    for gone in sorted(listed - mutants.keys()):
        print(f"listed as equivalent, and not tried: {gone}")
    survivors = []
    asked = sorted(mutants.keys() - listed)
    for each in asked:
        with mutants[each].installed():
            if killed_by(subject_of(name, tried.value)) is None:
                survivors.append(each)
                print(f"survives: {each}")
    found = 1 - len(survivors) / len(asked)
    print(
        f"{name}: {len(asked) - len(survivors)} of {len(asked)} mutants are found ({found:.1%}, "
        f"at least {tried.least:.0%}); {len(listed)} are equivalent"
    )
    return found >= tried.least and listed <= mutants.keys()


if __name__ == "__main__":
    sys.exit(main())
