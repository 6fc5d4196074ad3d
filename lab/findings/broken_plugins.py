"""Print what `swink doctor` and a call of another provider do beside each kind of broken plugin.

    python -m lab.findings.broken_plugins [WORD …]

Each plugin is written into a new folder on PYTHONPATH. Doctor must name the distribution, and
`echo` must answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.findings.gateways import verdict
from swink_testing.command_line import clean_environment, swink_command

GOOD = """import swink_core as swink

class Acme:
    def __init__(self, name):
        pass

    @swink.hookimpl
    async def stream(self, model, context, options, call):
        yield swink.Start()
        yield swink.TextStart(0)
        yield swink.TextDelta(0, "Hi")
        yield swink.TextEnd(0)
        yield swink.Done(swink.StopReason.STOP)
"""

TOML = (
    '[provider]\nname = "acme"\nbase_url = "http://acme.invalid"\napi_key_env = ["ACME_API_KEY"]\n'
    '[[models]]\nid = "large"\n'
)

OBSERVER = """import swink_core as swink

class Acme:
    @swink.hookimpl
    {definition}
        pass
"""


@dataclass(frozen=True, slots=True)
class Plugin:
    """The files of an installed plugin; `metadata` is `None` after a broken uninstallation."""

    code: str | None = GOOD
    name: str = "acme"
    group: str = "swink.providers"
    toml: str | None = TOML
    requires: Sequence[str] = ()
    entry_points: str | None = None
    metadata: bool = True
    again: bool = False

    def install(self, folder: Path) -> None:
        """Write the files of the plugin."""
        for module in ("acme_one", "acme_two") if self.again else ("acme_one",):
            if self.code is not None:
                (folder / module).mkdir()
                (folder / module / "__init__.py").write_text(self.code)
                if self.toml is not None:
                    toml = self.toml.replace('"acme"', f'"{self.name}"')
                    (folder / module / "models.toml").write_text(toml)
            information = folder / f"swink_{module}-1.0.dist-info"
            information.mkdir()
            points = f"[{self.group}]\n{self.name} = {module}:Acme\n"
            (information / "entry_points.txt").write_text(self.entry_points or points)
            (information / "RECORD").write_text("")
            if self.metadata:
                lines = ["Metadata-Version: 2.1", f"Name: swink-{module.replace('_', '-')}"]
                lines += ["Version: 1.0", *(f"Requires-Dist: {each}" for each in self.requires)]
                (information / "METADATA").write_text("\n".join(lines) + "\n")


def observer(definition: str) -> Plugin:
    """Return an observer whose hook has this definition."""
    return Plugin(OBSERVER.format(definition=definition), group="swink.plugins", toml=None)


PLUGINS: dict[str, Plugin] = {
    "one name twice": Plugin(again=True),
    "the name of echo": Plugin(name="echo"),
    "level 99 of the API": Plugin(toml=TOML.replace("base_url", "api_level = 99\nbase_url")),
    "fails at import": Plugin("1 / 0\n"),
    "sys.exit at import": Plugin("import sys\nsys.exit(3)\n"),
    "missing dependency": Plugin("import no_such_sdk\n", requires=["no-such-sdk"]),
    "needs a newer core": Plugin(requires=["swink-core>=9"]),
    "missing class": Plugin("x = 1\n"),
    "wrong signature": Plugin(GOOD.replace("model, context, options, call", "model, prompt")),
    "no hook": Plugin(GOOD.replace("    @swink.hookimpl\n", "")),
    "observer, wrong signature": observer("def on_event(self, evt):"),
    "observer, async": observer("async def on_event(self, event):"),
    "observer, fails at import": Plugin("1 / 0\n", group="swink.plugins", toml=None),
    "a slash in the name": Plugin(name="acme/x"),
    "a space in the name": Plugin(name="acme corp"),
    "broken models.toml": Plugin(toml="[provider\nname ="),
    "models.toml of another": Plugin(toml=TOML.replace('"acme"', '"other"')),
    "no models.toml": Plugin(toml=None),
    "module deleted": Plugin(None),
    "METADATA deleted": Plugin(metadata=False),
    "garbage in entry_points.txt": Plugin(entry_points="[swink.providers]\nacme one:Acme\n[[[\n"),
}

AMBIGUOUS = {"the name of echo"}
"""With these, a call of `echo` is refused, because two plugins have its name."""


def run(environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run the command line; return its exit status and all output."""
    done = subprocess.run(
        swink_command(*arguments),
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def main() -> None:
    """Print one line for each plugin; with words, for those whose name contains one."""
    words = sys.argv[1:]
    for name, plugin in PLUGINS.items():
        if words and not any(word in name for word in words):
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            installed = folder / "installed"
            installed.mkdir()
            plugin.install(installed)
            paths = [str(installed), *sys.path]
            environment = {
                **clean_environment(folder),
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "PYTHONWARNINGS": "ignore",
            }
            status, output = run(environment, "doctor")
            named = [line for line in output.splitlines() if "acme" in line.lower()]
            asked, answer = run(environment, "ask", "-m", "echo/echo", "Good morning")
            answered = asked == 0 and "Good morning" in answer
            crashed = "Traceback" in output + answer
            right = bool(named) and answered != (name in AMBIGUOUS) and not crashed
            text = f"{name}: doctor exits {status} and names it: {bool(named)}, echo: {answered}"
            verdict(right, text)
            if crashed:
                print(f"       {(output + answer).strip().splitlines()[-1][:150]}")
            elif named:
                print(f"       {named[0].strip()[:150]}")


if __name__ == "__main__":
    main()
