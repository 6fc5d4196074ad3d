"""Count how many mutants of providers the conformance kit finds: `make mutants`.

The mutants are made by rule (`swink_testing.mutants`) of the sound provider of the kit's tests, of
what the template renders and of providers of this repository. Those that change nothing that a
caller or an API could notice, or what only the API itself could tell, are in `mutants.toml` with
the reason. The exit code is 1 where fewer are found than the share that is promised.
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

import msgspec

from swink_core import Host
from swink_testing.conformance import Subject
from swink_testing.mutants import Mutant, killed_by, mutants_of

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "mutants.toml"
SOUND = ROOT / "contrib/swink-testing/tests/fixtures/conformance"

PROMISED = 0.95
"""The share of mutants that the kit has to find."""

PROVIDERS = {
    "sound": ("sound_provider:Sound", ("sound_provider",), 1),
    "acme": ("swink_provider_acme:Acme", ("swink_provider_acme.plugin",), 1),
    "cohere": (
        "swink_provider_cohere:CohereProvider",
        tuple(f"swink_provider_cohere.{part}" for part in ("parser", "converter", "provider")),
        5,
    ),
    "ollama": (
        "swink_provider_ollama:OllamaProvider",
        tuple(f"swink_provider_ollama.{part}" for part in ("parser", "conversion", "provider")),
        5,
    ),
    "mistral": ("swink_provider_mistral:MistralProvider", ("swink_provider_mistral.provider",), 3),
}
"""Entry points, the modules that are mutated, and of how many mutants one is tried."""


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
    found = tried = 0
    unused = {name for name in equivalent if any(name.startswith(_prefix(n)) for n in names)}
    with tempfile.TemporaryDirectory() as folder:
        sys.path[:0] = [str(SOUND), render(folder)]
        for name in names:
            value, modules, share = PROVIDERS[name]
            for mutant in sampled(modules, share):
                with mutant.installed():
                    killer = killed_by(subject_of(name, value))
                if mutant.name in equivalent:
                    unused.discard(mutant.name)
                    if killer is not None:
                        print(f"listed as equivalent, and found: {mutant.name} ({killer})")
                    continue
                tried += 1
                found += killer is not None
                if killer is None:
                    print(f"survives: {mutant.name}")
    for gone in sorted(unused):
        print(f"listed as equivalent, and not tried: {gone}")
    print(f"{found} of {tried} mutants are found ({found / tried:.1%}), of at least {PROMISED:.0%}")
    return 1 if unused or found < PROMISED * tried else 0


def _prefix(name: str) -> str:
    return PROVIDERS[name][0].partition(":")[0]


if __name__ == "__main__":
    sys.exit(main())
