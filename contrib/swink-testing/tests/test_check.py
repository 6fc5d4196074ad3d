"""`swink check`: the kit's results as a table, as JSON and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from swink_core import AssistantMessage, StopReason, TextBlock, Usage, dump
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_test_helpers.installed import LINES_PROVIDER, catalogue, install, record
from swink_testing.commands.check import _show
from swink_testing.conformance import PROVIDER_CHECKS, Outcome, Result

SOUND = (
    LINES_PROVIDER
    + """
    features = frozenset()
    knobs = frozenset()

    def convert(self, model, context, options):
        said = [swink_core.dump(m) for m in swink_core.providers.normalise(context, self.name)]
        payload = {"model": model.id, "system": context.system_prompt, "said": said}
        return swink_core.providers.with_extra(options.extra, payload)
"""
).replace("import json\n", "import json\nimport swink_core\nimport swink_core.providers\n")
ANSWER = [{"say": "Hello "}, {"say": "there, you."}, {"stop": "stop", "heard": 5, "said": 3}]
MESSAGE = AssistantMessage(
    [TextBlock("Hello there, you.")],
    provider="sound",
    model="large",
    usage=Usage(5, 3, total=8, reported=True),
    stop_reason=StopReason.STOP,
)
ECHO = "echo: consistent: 11 checks hold, 22 do not apply"
LIVE = "sound: consistent: 3 checks hold, 2 do not apply"

TWO_PARTS = """
    def sign(self, request, credential, options):
        id, secret = credential.split(":")
        request.headers["Authorization"] = f"Bearer {secret}"
        request.headers["X-Sound-Id"] = id
"""

HOOKLESS = """
class Hookless:
    def __init__(self, name):
        self.name = name
"""
ELSEWHERE = """
import swink_core

class Elsewhere:
    def __init__(self, name):
        self.name = name

    @swink_core.hookimpl
    def stream(self):
        return self.events()

    async def events(self):
        yield swink_core.Start()
        yield swink_core.TextStart(0)
        yield swink_core.TextDelta(0, "Hello")
        yield swink_core.TextEnd(0)
        yield swink_core.Done(swink_core.StopReason.STOP)

    @swink_core.hookimpl
    def convert_messages(self, context):
        return swink_core.dump(context)
"""


@pytest.fixture
def checked(swink: Any, tmp_path: Path) -> Any:
    """Runs `swink check` beside `faulty`, which drops what it says it has."""
    site = tmp_path / "site"
    for name, source in {"sound": SOUND, "faulty": LINES_PROVIDER}.items():
        package = f"{name}_provider"
        install(
            site,
            f"swink-provider-{name}",
            {"swink.providers": {name: f"{package}:LinesProvider"}},
            {
                f"{package}/__init__.py": source,
                f"{package}/models.toml": catalogue(name)
                .replace('"tools"', "")
                .replace("http:", "https:"),
            },
        )
        folder = site / package / "recordings" / "hello"
        record(folder, name, ANSWER, 0.1, note="Written by hand.")
        (folder / "message.json").write_text(json.dumps(dump(MESSAGE)))

    def run(*arguments: str, **more: str) -> Any:
        return swink("check", *arguments, PYTHONPATH=str(site), **more)

    run.site = site  # type: ignore[attr-defined]  # what the tests add to
    return run


def row(output: str, check: str) -> str:
    return next(
        " ".join(line.split()) for line in output.splitlines() if line.startswith(f"{check} ")
    )


def test_echo_is_consistent_and_every_check_is_a_row(swink: Any) -> None:
    done = swink("check", "echo")

    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-3]] == [check.name for check in PROVIDER_CHECKS]
    assert lines[-2] == ECHO
    assert lines[-1].endswith("none is needed, it has no wire format")
    assert "does not apply it does not speak HTTP" in row(done.stdout, "standard_faults")


def test_a_plugin_without_a_hook_is_not_consistent(checked: Any) -> None:
    add(checked.site, "hookless", HOOKLESS)

    done = checked("hookless")

    assert done.returncode == 1
    assert "it has no stream hook" in row(done.stdout, "loads")
    line = done.stdout.splitlines()[-2]
    assert line.startswith("hookless: not consistent: loads")


def test_calls_are_made_only_where_they_are_said_to_reach_nothing(checked: Any) -> None:
    add(checked.site, "elsewhere", ELSEWHERE)

    unseen, seen = checked("elsewhere"), checked("elsewhere", "--offline")

    unsure = "elsewhere: not consistent: grammar (Elsewhere answers from somewhere else"
    assert unseen.stdout.splitlines()[-2].startswith(unsure)
    assert "passed" in row(seen.stdout, "grammar")
    assert "elsewhere: not consistent: grammar" not in seen.stdout


def add(site: Path, name: str, source: str) -> None:
    install(
        site,
        f"swink-provider-{name}",
        {"swink.providers": {name: f"{name}_provider:{name.title()}"}},
        {f"{name}_provider/__init__.py": source, f"{name}_provider/models.toml": catalogue(name)},
    )


def test_a_row_is_there_when_its_check_ends(capsys: pytest.CaptureFixture[str]) -> None:
    checks = PROVIDER_CHECKS[:3]
    before: list[str] = []

    def each() -> Iterator[Result]:
        for check in checks:
            before.append(capsys.readouterr().out)
            yield Result(check.name, Outcome.PASSED)

    _show("echo", checks, each(), as_json=False)

    printed = [line.split()[0] for line in "".join(before).splitlines()]
    assert printed == ["CHECK", *(check.name for check in checks[:-1])]


def test_a_fault_is_told_and_fails_the_command(checked: Any) -> None:
    done = checked("faulty")

    assert done.returncode == 1
    assert "failed" in row(done.stdout, "nothing_dropped")
    assert "the model's name: large is nowhere" in row(done.stdout, "nothing_dropped")
    assert "\nfaulty: not consistent: " in done.stdout
    assert "\nfaulty: evidence: 0 of " in done.stdout


def test_of_a_fault_it_is_explained_where_it_is_what_was_sent_and_what_was_expected(
    checked: Any,
) -> None:
    done = checked("faulty", "--explain")

    told = done.stdout.partition("\nconversations: ")[2].partition("\n\n")[0].split("\n")[2:]
    line = LINES_PROVIDER.partition("    def convert")[0].count("\n") + 1
    where = f"{checked.site}/faulty_provider/__init__.py:{line} (LinesProvider.convert)"
    assert told[1] == f"    at {where}"
    assert told[2].startswith('    sent: {"said": ["asked naïve')
    assert told[3].startswith("    expected: ruled naïve")


def test_faults_that_the_package_waives_do_not_fail_the_command(checked: Any) -> None:
    checks = json.loads(checked("faulty", "--json").stdout)[0]["checks"]
    faulty = [check for check in checks if check["outcome"] == "failed"]
    lines = []
    for check in faulty:
        lines.append(f"[faulty.{check['name']}]")
        rows = {fault[:40]: "it has no tools yet" for fault in check["faults"]}
        rows = {
            "is neither sent nor refused" if "neither" in words else words: why
            for words, why in rows.items()
        }
        lines += [f"{json.dumps(words)} = {json.dumps(reason)}" for words, reason in rows.items()]
    (checked.site / "faulty_provider" / "waivers.toml").write_text("\n".join(lines))

    done = checked("faulty")

    assert faulty
    assert done.returncode == 0, done.stdout
    assert "it has no tools yet" in row(done.stdout, "nothing_dropped")
    assert "waived" in row(done.stdout, "nothing_dropped")


def test_all_installed_providers_are_a_row_each(checked: Any) -> None:
    done = checked(SWINK_PLUGINS="echo,sound,faulty")  # of many, whatever else is here

    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:] if line}
    assert rows["echo"] == ["11", "of", "11", "-"]
    assert rows["sound"][0] == rows["sound"][2]
    assert rows["faulty"][0] != rows["faulty"][2]
    assert done.returncode == 1
    assert "swink check faulty tells more." in done.stderr


def test_json_has_every_check(checked: Any) -> None:
    (found,) = json.loads(checked("sound", "--json").stdout)

    assert (found["provider"], found["consistent"]) == ("sound", True)
    assert "request: stream" in found["evidence"]["missing"]
    assert [check["name"] for check in found["checks"]] == [c.name for c in PROVIDER_CHECKS]


def test_keys_have_the_form_that_the_provider_requires(checked: Any) -> None:
    file = checked.site / "sound_provider" / "__init__.py"
    file.write_text(file.read_text() + TWO_PARTS)

    without, with_form = checked("sound"), checked("sound", "--key-form", "ID7:{}")

    assert without.returncode == 1
    assert with_form.returncode == 0, with_form.stdout


def test_a_model_names_its_provider(swink: Any) -> None:
    done = swink("check", "-m", "echo/think")

    assert done.stdout.splitlines()[-2] == ECHO


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ekho",), 'did you mean "echo"'),
        (("--live",), "about one provider"),
        (("--recordings", "."), "about one provider"),
        (("--offline",), "about one provider"),
        (("--key-form", "ID7:{}"), "one provider's keys"),
        (("echo", "--key-form", "ID7"), "with {} in it"),
        (("echo", "--base-url", "http://127.0.0.1"), "--base-url means nothing"),
        (
            ("echo", "-m", "openai/gpt-5"),
            "openai/gpt-5 is not a model of echo\nWrite echo/ID, or leave echo out.",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(swink: Any, arguments: tuple[str, ...], words: str) -> None:
    done = swink("check", *arguments)

    assert done.returncode == 2
    assert words in done.stderr


# -- live ----------------------------------------------------------------------------------------


def test_a_live_answer_that_goes_as_recorded_passes(checked: Any) -> None:
    recording = Recording.load(checked.site / "sound_provider" / "recordings" / "hello")
    at_once = evolve(recording, chunks=[(0.0, len(recording.body))])  # so nothing could be left
    with ReplayServer() as server:
        url = server.add("live", at_once)
        done = checked("sound", "--live", "--base-url", url, SOUND_API_KEY="my-own-key")

        assert done.stdout.splitlines()[-1] == LIVE
        assert done.returncode == 0
        assert {e.headers["authorization"] for e in server.exchanges} == {"Bearer my-own-key"}


def test_a_live_answer_that_no_recording_shows_fails(checked: Any, tmp_path: Path) -> None:
    record(tmp_path / "live", "sound", [{"think": "Why?"}, *ANSWER], 0.0)
    with ReplayServer() as server:
        url = server.add("live", Recording.load(tmp_path / "live"))
        done = checked("sound", "--live", "--base-url", url, SOUND_API_KEY="my-own-key")

    assert done.returncode == 1
    assert "no recording shows start then thinking_start" in row(done.stdout, "as_recorded")


def test_a_live_call_without_a_key_says_what_is_missing(checked: Any) -> None:
    done = checked("sound", "--live")

    assert done.returncode == 1
    assert "SOUND_API_KEY is not set" in row(done.stdout, "answers")


def test_echo_passes_live_too(swink: Any) -> None:
    done = swink("check", "echo", "--live")

    assert done.returncode == 0, done.stdout


# -- plugins that are no providers ---------------------------------------------------------------

WATCH = """
import os
import swink_core

class Watch:
    @swink_core.hookimpl
    def on_event(self, event):
        if os.environ["WATCH"] == "closely" and isinstance(event, swink_core.TextDelta):
            event.delta = "changed"

def make():
    return Watch() if os.environ.get("WATCH") else None
"""


@pytest.fixture
def watched(checked: Any) -> Any:
    install(
        checked.site,
        "acme-watch",
        {"swink.plugins": {"watch": "acme_watch:make"}},
        {"acme_watch/__init__.py": WATCH},
    )
    return checked


def test_an_observer_is_checked_by_its_name(watched: Any) -> None:
    done = watched("watch", WATCH="on")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("watch: consistent: ")


def test_a_fault_of_an_observer_is_told(watched: Any) -> None:
    done = watched("watch", "--json", WATCH="closely")
    [report] = json.loads(done.stdout)
    faults = [check["name"] for check in report["checks"] if check["outcome"] == "failed"]
    assert (done.returncode, faults) == (1, ["disturbs_no_call"])


def test_an_observer_that_is_not_configured_is_not_checked(watched: Any) -> None:
    done = watched("watch")
    assert done.returncode == 2
    assert "installed and not configured" in done.stderr


@pytest.mark.parametrize("option", ["--live", "--offline", "--explain", "--mutants"])
def test_an_option_for_providers_is_refused_for_an_observer(watched: Any, option: str) -> None:
    done = watched("watch", option, WATCH="on")
    assert done.returncode == 2
    assert "watch is not a provider: only --json applies to its checks" in done.stderr


@pytest.mark.parametrize("method", ["on_event", "on_events"])
def test_an_observer_without_a_hook_is_not_consistent(checked: Any, method: str) -> None:
    source = f"class Watch:\n    def {method}(self, event):\n        pass\n"
    entries = {"swink.plugins": {"watch": "acme_watch:Watch"}}
    install(checked.site, "acme-watch", entries, {"acme_watch/__init__.py": source})

    done = checked("watch")

    assert done.returncode == 1
    assert "implements no hook" in row(done.stdout, "fits_the_hooks")
    assert done.stdout.splitlines()[-1].startswith("watch: not consistent: ")


def test_a_plugin_that_is_nothing_where_it_is_not_configured_is_not_checked(checked: Any) -> None:
    entries = {"swink.plugins": {"watch": "acme_watch:Watch"}}
    source = "class Watch:\n    pass\n"
    install(checked.site, "acme-watch", entries, {"acme_watch/__init__.py": source})

    assert "installed and not configured" in checked("watch").stderr
