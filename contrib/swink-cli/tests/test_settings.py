"""The settings stored by `swink default`, `alias` and `config`, and their effect."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_service import ChatService
from screen import seen

from swink_cli.files import state_folder, user_folder
from swink_core import UsageError
from swink_test_helpers.installed import LINES_PROVIDER, catalogue, install


@pytest.fixture
def file(swink_environment: dict[str, str]) -> Path:
    """Where a platform of this kind keeps it."""
    return Path(swink_environment["HOME"]) / ".config" / "swink" / "config.toml"


@pytest.fixture
def keep(file: Path) -> Any:
    def write(text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write


def test_a_default_is_set_shown_used_and_removed(swink: Any, file: Path) -> None:
    assert "no default" in swink("default").stdout
    assert swink("default", "echo/think", "echo/echo").returncode == 0
    assert swink("default").stdout == "echo/think echo/echo\n"
    assert swink("ask", "Hi").stdout == "Hi\n"
    assert "echo/think" in swink("ask", "Hi").stderr
    assert swink("ask", "Hi", SWINK_MODEL="echo/tool").stderr.startswith("tool call")
    assert swink("default", "--unset").returncode == 0
    done = swink("ask", "Hi")
    assert (done.returncode, "swink default PROVIDER/MODEL" in done.stderr) == (2, True)
    assert "default" not in file.read_text()


def test_an_alias_stands_for_its_models(swink: Any, file: Path) -> None:
    assert swink("alias", "quick", "echo/fail-overloaded", "echo/echo").returncode == 0
    assert swink("alias", "other", "echo/think").returncode == 0
    assert swink("alias").stdout.split() == [
        *("other", "echo/think", "quick", "echo/fail-overloaded", "echo/echo")
    ]
    assert swink("alias", "quick").stdout == "echo/fail-overloaded echo/echo\n"
    done = swink("ask", "-m", "quick", "-o", "retry.budget=0", "Hi")
    assert (done.returncode, done.stdout) == (0, "Hi\n")
    assert swink("chat", stdin="/model other\nHi\n", SWINK_MODEL="quick").returncode == 0
    assert swink("alias", "quick", "--remove").returncode == 0
    assert "quick" not in file.read_text()
    assert swink("ask", "-m", "quick", "Hi").returncode == 2


def test_user_content_is_kept(swink: Any, file: Path, keep: Any) -> None:
    keep('# mine\n[aliases]  # short\na = "echo/echo" # the first\n')
    assert swink("alias", "b", "echo/think").returncode == 0
    text = file.read_text()
    assert "# mine" in text
    assert 'a = "echo/echo" # the first' in text
    assert swink("alias", "a").stdout == "echo/echo\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default = nothing", "line 1"),
        ("default = 3", "default is not a model name"),
        ("default = []", "default is not a model name"),
        ("[aliases]\nx = [1]", "aliases.x is not a model name"),
        ("colour = 'red'", "unknown key 'colour'"),
        ("aliases = 3", "aliases is not a table"),
    ],
)
def test_an_invalid_file_is_named_and_not_changed(
    swink: Any, file: Path, keep: Any, text: str, said: str
) -> None:
    keep(text)
    for line in (["ask", "Hi"], ["default", "echo/echo"], ["alias", "a", "echo/echo"]):
        done = swink(*line)
        assert done.returncode == 2
        assert str(file) in done.stderr
        assert said in " ".join(done.stderr.split())
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["default", "nonsense"], "is not a model name"),
        (["default", "nobody/x"], "nobody"),
        (["alias", "a/b", "echo/echo"], "invalid alias"),
        (["alias", " a", "echo/echo"], "invalid alias"),
        (["alias", "a", "nonsense"], "is not a model name"),
        (["alias", "a"], "unknown alias 'a'"),
        (["alias", "a", "--remove"], "unknown alias 'a'"),
    ],
)
def test_an_unusable_model_is_not_stored(
    swink: Any, file: Path, line: list[str], said: str
) -> None:
    done = swink(*line)
    assert (done.returncode, said in done.stderr) == (2, True)
    assert not file.exists()


def test_the_file_is_where_the_variable_says(swink: Any, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "else" / "where.toml"
    assert swink("default", "echo/echo", SWINK_CONFIG=str(other)).returncode == 0
    assert swink("ask", "Hi", SWINK_CONFIG=str(other)).stdout == "Hi\n"
    assert (other.exists(), file.exists()) == (True, False)


@pytest.mark.parametrize("words", ["swink config get al", "swink keys remove al"])
def test_completion_offers_nothing_where_a_file_cannot_be_read(
    swink: Any, file: Path, keep: Any, words: str
) -> None:
    keep("default = [")
    keys = file.with_name("keys.toml")
    keys.write_text("[keys")
    keys.chmod(0o600)
    done = swink(_SWINK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="3")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


# -- profiles and `swink config` -----------------------------------------------------------------


PROFILES = """
default = "echo/echo"
[aliases]
a = "echo/echo"
b = "echo/echo"
[profiles.work]
default = "echo/think"
[profiles.work.aliases]
a = "echo/tool"
"""


@pytest.mark.parametrize("folder", [user_folder, state_folder])
def test_a_user_without_a_home_is_told_what_to_set(
    folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(number: int) -> Any:
        raise KeyError(number)

    monkeypatch.setattr(pytest.importorskip("pwd"), "getpwuid", nobody)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="home folder") as caught:
        folder()
    assert "HOME" in str(caught.value.resolution)


def test_a_profile_overrides_the_file(swink: Any, keep: Any) -> None:
    keep(PROFILES)
    assert swink("default").stdout == "echo/echo\n"
    assert swink("--profile", "work", "default").stdout == "echo/think\n"
    assert swink("--profile=work", "alias").stdout.split() == ["a", "echo/tool", "b", "echo/echo"]
    assert swink("--profile", "work", "Hi you").stderr.startswith("The prompt has 2 words")
    assert swink("default", SWINK_PROFILE="work").stdout == "echo/think\n"
    assert swink("config", "set", "profile", "work").returncode == 0
    assert swink("default").stdout == "echo/think\n"
    done = swink("--profile", "play", "default")
    assert (done.returncode, "unknown profile 'play'" in done.stderr) == (2, True)
    assert swink("--profile", "play", "default", "echo/tool").returncode == 0
    assert swink("--profile", "play", "default").stdout == "echo/tool\n"


def test_an_option_of_swink_behind_a_command_says_where_it_belongs(swink: Any) -> None:
    done = swink("ask", "-m", "echo/echo", "--profile", "work", "Hi")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Put it before the command: swink --profile …" in done.stderr


def test_settings_of_a_provider_are_sent_only_to_it(swink: Any) -> None:
    with ChatService(["Here."]) as service:
        address = ("providers.openai.base_url", service.base_url)
        assert swink("config", "set", *address).returncode == 0
        assert swink("config", "set", "providers.openai.headers.X-Team", "blue").returncode == 0
        done = swink("ask", "-m", "openai/any", "Hi", OPENAI_API_KEY="sk-0123456789")
        assert (done.returncode, done.stdout) == (0, "Here.\n")
        assert service.exchanges[0].headers["x-team"] == "blue"
        assert swink("ask", "-m", "echo/echo", "Hi").stdout == "Hi\n"
        assert len(service.exchanges) == 1


DEFAULTS = """
system = "Be brief."
[options]
temperature = 0.2
[options.timeouts]
idle = 60
[profiles.work]
system = "Be formal."
[profiles.work.options]
temperature = 0.7
top_p = 0.5
"""

# options before and behind `ask`, and what the request has: the system prompt, temperature, top_p
DEFAULTED: list[tuple[str, list[str], list[str], tuple[str | None, float | None, float | None]]] = [
    ("of the file", [], [], ("Be brief.", 0.2, None)),
    ("of a profile", ["--profile", "work"], [], ("Be formal.", 0.7, 0.5)),
    ("replaced by -s", [], ["-s", "No."], ("No.", 0.2, None)),
    ("replaced by nothing", [], ["-s", ""], (None, 0.2, None)),
    ("replaced by an option", [], ["--temperature", "1"], ("Be brief.", 1.0, None)),
    ("replaced by a pair", [], ["-o", "temperature=0.9"], ("Be brief.", 0.9, None)),
    ("added to", [], ["-o", "top_p=0.1"], ("Be brief.", 0.2, 0.1)),
]


@pytest.mark.parametrize(
    ("before", "behind", "expected"), [row[1:] for row in DEFAULTED], ids=[r[0] for r in DEFAULTED]
)
def test_defaults_of_every_call_are_configured_and_replaced(
    swink: Any,
    keep: Any,
    before: list[str],
    behind: list[str],
    expected: tuple[str | None, float | None, float | None],
) -> None:
    keep(DEFAULTS)
    with ChatService(["Here."]) as service:
        given = {"OPENAI_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": service.base_url}
        done = swink(*before, "ask", "-m", "openai/any", *behind, "Hi", **given)
        assert (done.returncode, done.stdout) == (0, "Here.\n"), done.stderr
        (body,) = service.requests
    system = [one["content"] for one in body["messages"] if one["role"] != "user"]
    assert (next(iter(system), None), body.get("temperature"), body.get("top_p")) == expected


def test_a_conversation_keeps_its_system_prompt(swink: Any, keep: Any) -> None:
    with ChatService(["Here."]) as service:
        given = {"OPENAI_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": service.base_url}
        assert swink("ask", "-m", "openai/any", "-s", "Rhyme.", "Hi", **given).returncode == 0
        keep(DEFAULTS)
        assert swink("ask", "-c", "And?", **given).returncode == 0
        assert [body["messages"][0]["content"] for body in service.requests] == ["Rhyme."] * 2


def test_config_shows_where_each_value_comes_from(swink: Any, keep: Any) -> None:
    keep(DEFAULTS + "[profiles.home]\nlog = false\n")
    done = swink("--profile", "work", "config", SWINK_MODEL="echo/echo")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines == [
        "KEY VALUE FROM",
        "default echo/echo SWINK_MODEL",
        "profile work --profile",
        "system Be formal. profile work",
        "options.temperature 0.7 profile work",
        "options.top_p 0.5 profile work",
        "options.timeouts.idle 60 file",
        "system Be brief. file, replaced by profile work",
        "options.temperature 0.2 file, replaced by profile work",
        "profiles.home.log false not in use",
    ]
    told = swink("config", SWINK_PROFILE="home").stdout
    assert "profile" in told
    assert "SWINK_PROFILE" in told


# a key, its value as TOML, and what `swink config` shows ("": that the value is hidden)
HELD = [
    ("providers.anthropic.extra.mcp_servers", '[{name = "a", authorization_token = "tok-1"}]', ""),
    ("providers.anthropic.extra.servers", '[{inner = [{headers = {X-Team = "tok-2"}}]}]', ""),
    ("providers.anthropic.extra.urls", '["https://me:tok-3@a.example/x"]', ""),
    ("providers.anthropic.extra.limits", '[{max_tokens = 100}]', "[{'max_tokens': 100}]"),
    ("providers.openai.extra.authorization", '"Bearer tok-4"', ""),
    ("providers.openai.extra.inner.api_key", '"tok-5"', ""),
    ("providers.openai.extra.mcp.server", '"npx server tok-6"', ""),
    ("providers.openai.headers.X-Team", '"tok-7"', ""),
    ("providers.openai.base_url", '"https://me:tok-8@a.example/v1"', "https://a.example/v1"),
    ("providers.groq.base_url", '"https://me:tok[9@a.example/v1"', "[hidden]"),
    ("options.max_tokens", "100", "100"),
    ("system", '"See https://a.example/?key=tok-10 and answer."',
     "See https://a.example/?key=[hidden] and answer."),
    ("aliases.key", '"echo/echo"', "echo/echo"),
    ("mcp.word", '"word-mcp"', "word-mcp"),
    ("mcp.words", '"words-mcp --token tok-11"', ""),
    ("mcp.list", '["list-mcp", "--token=tok-12"]', ""),
    ("mcp.table.command", '"table-mcp tok-13"', ""),
    ("mcp.table.args", '["tok-14"]', ""),
    ("mcp.table.env.WORD", '"tok-15"', ""),
    ("mcp.address", '"https://a.example/mcp"', "https://a.example/mcp"),
    ("mcp.remote.url", '"https://a.example/mcp?token=tok-16"',
     "https://a.example/mcp?token=[hidden]"),
    ("mcp.remote.headers.Word", '"tok-17"', ""),
    ("profiles.work.mcp.words", '"words-mcp tok-18"', ""),
    ("profiles.a-b.options.extra.secret", '"tok-19"', ""),
]  # fmt: skip


def test_config_shows_no_credentials(swink: Any, keep: Any) -> None:
    keep("".join(f"{key} = {value}\n" for key, value, _ in HELD))
    shown = swink("config").stdout
    assert "tok" not in shown.replace("token", "")
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    for key, _, text in HELD:
        start = f"{key} {text or f'(hidden: swink config get {key})'} "
        assert [row for row in rows if row.startswith(start)], start
    assert swink("config", "get", "mcp.words").stdout == "words-mcp --token tok-11\n"


def test_settings_are_shown_set_and_forgotten(swink: Any, file: Path) -> None:
    assert "no settings yet" in swink("config").stdout
    for key, value in (
        ("aliases.quick", "echo/echo"),
        ("default", '["echo/think", "echo/echo"]'),
        ("providers.openai.timeouts.idle", "60"),
    ):
        assert swink("config", "set", key, value).returncode == 0
    assert [line.split() for line in swink("config", "show").stdout.splitlines()] == [
        ["KEY", "VALUE", "FROM"],
        ["default", "echo/think", "echo/echo", "file"],
        ["aliases.quick", "echo/echo", "file"],
        ["providers.openai.timeouts.idle", "60", "file"],
    ]
    assert swink("config", "get", "providers.openai").stdout == "timeouts.idle = 60\n"
    assert swink("config", "set", "providers.echo.timeouts.idle", "60").returncode == 0
    assert swink("-m", "echo/echo", "Hi").stdout == "Hi\n"
    assert swink("config", "set", "providers.echo.timeouts.idel", "1").returncode == 0
    told = swink("-m", "echo/echo", "Hi").stderr
    assert "configured: providers.echo.timeouts has no part 'idel'; did you mean 'idle'?" in told
    assert swink("config", "get", "default").stdout == "echo/think echo/echo\n"
    assert swink("config", "path").stdout == f"{file}\n"
    assert swink("config", "unset", "default").returncode == 0
    assert swink("config", "get", "default").returncode == 2
    assert swink("config", "unset", "default").returncode == 2


@pytest.mark.parametrize("where", ["", "profiles.work."])
def test_an_alias_may_contain_dots(swink: Any, file: Path, where: str) -> None:
    key = f"{where}aliases.gpt-5.4"
    assert swink("config", "set", key, "echo/echo").returncode == 0
    assert swink("config", "get", key).stdout == "echo/echo\n"
    assert key in swink("config").stdout
    assert swink("config", "unset", key).returncode == 0
    assert swink("config", "get", key).returncode == 2


def test_a_file_may_begin_with_a_byte_order_mark(swink: Any, file: Path, keep: Any) -> None:
    keep("\ufeffdefault = 'echo/echo'\n")
    assert swink("Hi").stdout == "Hi\n"
    assert swink("config", "set", "aliases.quick", "echo/think").returncode == 0
    assert swink("config", "get", "default").stdout == "echo/echo\n"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("colour", "red", "unknown key 'colour'"),
        ("default", "3", "not a model name"),
        ("providers.openai.api_key", "sk-0123456789", "swink keys set openai"),
        ("default.x", "y", "default is not a model name"),
        ("a..b", "y", "is not a key"),
        ("default", "nosuch", "'nosuch' is not a model name"),
        ("default", '["echo/echo", "nosuch"]', "'nosuch' is not a model name"),
        ("aliases.quick", "nobody/x", "nobody"),
        ("profiles.work.default", "nosuch", "'nosuch' is not a model name"),
        ("options.temprature", "1", "no option 'temprature'; did you mean 'temperature'?"),
        ("options", "warm", "options is not a table"),
        ("options", "{temprature = 1}", "no option 'temprature'; did you mean 'temperature'?"),
        ("options.temperature", "warm", "options.temperature='warm'"),
        ("options.base_url", "http://x", "applies to a single provider"),
        ("options.timeout", "30", "timeouts.total"),
        ("system", "3", "system: expected text"),
        ("profiles.work.options.seed", "x", "options.seed='x'"),
        ("providers.nosuch.base_url", "http://x", 'no provider "nosuch"'),
        ("providers.openai.base_url", "5", "providers.openai.base_url=5: expected an address"),
        ("providers.openai.bse_url", "http://x", "no option 'bse_url'; did you mean 'base_url'?"),
        ("providers.openai.timouts.idle", "1", "no option 'timouts'"),
        ("profiles.work.providers.openai.seed", "x", "providers.openai.seed='x'"),
    ],
)
def test_an_invalid_setting_is_not_written(
    swink: Any, file: Path, key: str, value: str, said: str
) -> None:
    done = swink("config", "set", key, value)
    assert (done.returncode, said in " ".join(done.stderr.split())) == (2, True)
    assert "Mend the file" not in done.stderr  # it is not the file that is wrong
    assert not file.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[providers.echo]\nbase_url = 5", "providers.echo.base_url=5: expected an address"),
        ("[providers.echo]\nbse_url = 'x'", "providers.echo has no option 'bse_url'"),
        ("[providers.echo.timeouts]\nidel = 1", "providers.echo.timeouts has no part 'idel'"),
        ("default = ", "Invalid value"),
    ],
)
def test_an_invalid_setting_is_reported_with_key_and_file(
    swink: Any, file: Path, keep: Any, text: str, said: str
) -> None:
    keep(text)
    for line in (["ask", "-m", "echo/echo", "Hi"], ["doctor"]):
        done = swink(*line)
        told = " ".join((done.stdout + done.stderr).split())
        assert done.returncode in (1, 2)
        assert said in told
        assert str(file) in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default = 'nosuch'", "'nosuch' is not a model name"),
        ("[aliases]\nquick = ['echo/echo', 'nosuch']", "'nosuch' is not a model name"),
        ("[providers.nosuch]\nbase_url = 'http://x'", 'no provider "nosuch"'),
    ],
)
def test_the_doctor_names_what_is_configured_and_could_not_be_used(
    swink: Any, file: Path, keep: Any, text: str, said: str
) -> None:
    keep(text)
    done = swink("doctor")
    assert (done.returncode, said in done.stdout) == (1, True)
    assert f"{file}, " in done.stdout


def test_the_editor_is_the_users(swink: Any, file: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho \'default = "echo/echo"\' > "$1"\n')
    editor.chmod(0o755)
    assert swink("config", "edit", EDITOR=str(editor)).returncode == 0
    assert swink("default").stdout == "echo/echo\n"
    editor.write_text("#!/bin/sh\necho 'colour = 1' > \"$1\"\n")
    assert "unknown key 'colour'" in " ".join(
        swink("config", "edit", EDITOR=str(editor)).stderr.split()
    )


# -- nothing configured --------------------------------------------------------------------------


TELLING = """
from lines_provider import LinesProvider
from swink_core import Failure, ModelInfo, ProviderFailure

class Provider(LinesProvider):
    async def list_models(self, options, http):
        if self.name == "silent":
            raise ProviderFailure(Failure("connect", message="no such luck"))
        return [ModelInfo("pulled:3b", self.name)]
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two servers of a user's own, one of which runs, and a model that is to be downloaded."""
    server = 'auth = "optional"\ndialect = { lists_models = true }\n'
    free = catalogue("here").replace("settings = {}\n", 'auth = "none"\n')
    models = [
        *(catalogue(name).replace("settings = {}\n", server) for name in ("running", "silent")),
        free + 'extra = { download = "1.9 GB", licence = "Apache-2.0" }\n',
    ]
    points = dict.fromkeys(("running", "silent", "here"), "telling:Provider")
    files = {"telling/__init__.py": TELLING, "telling/models.toml": "".join(models),
             "lines_provider/__init__.py": LINES_PROVIDER}  # fmt: skip
    return install(tmp_path / "site", "swink-provider-telling", {"swink.providers": points}, files)


CHANGES = """
import sys
from swink_cli.keys import keep
from swink_cli.settings import change
print("ready", flush=True)
sys.stdin.read()
for count in range(15):
    change(["aliases"], sys.argv[1] + str(count), ["echo/echo"])
    keep(sys.argv[1] + str(count), "k")
"""


def test_concurrent_changes_of_two_processes_are_both_kept(
    swink_environment: dict[str, str], file: Path
) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CHANGES, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=swink_environment,
        )
        for name in ("here", "there")
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    for process in started:
        with process:
            assert process.wait(60) == 0
    kept = {f"{name}{count}" for name in ("here", "there") for count in range(15)}
    assert tomllib.loads(file.read_text())["aliases"].keys() == kept
    assert tomllib.loads(file.with_name("keys.toml").read_text())["keys"].keys() == kept


def test_without_a_model_the_available_ones_are_offered(start: Any, swink: Any, site: Path) -> None:
    assert swink("keys", "set", "groq", stdin="sk-kept-0123456789").returncode == 0
    given = {"OPENAI_API_KEY": "sk-0123456789", "PYTHONPATH": str(site)}
    given["SWINK_DISABLE_PLUGINS"] = "ollama,local"  # this machine may have them
    running = start("Hi", size=(100, 30), **given)
    running.wait_for("[6]: ")  # Enter chooses echo
    lines = [line.split() for line in seen(running.output, 100)]
    offered = {line[1].partition("/")[0]: line for line in lines[1:-1]}
    running.type(f"{offered['echo'][0]}\n")
    assert running.finish() == 0
    assert list(offered) == ["groq", "openai", "running", "here", "paste", "echo"]
    assert " ".join(offered["groq"][2:]).endswith("per million tokens; its key is stored")
    assert "OPENAI_API_KEY" in offered["openai"]
    assert offered["running"][1:] == ["running/pulled:3b", "runs", "on", "this", "machine"]
    assert " ".join(offered["here"][2:]).endswith("one download of 1.9 GB; Apache-2.0")
    assert "Hi" in seen(running.output, 100)


def test_choosing_nothing_explains_the_command(start: Any) -> None:
    running = start("Hi", size=(100, 60), SWINK_PLUGINS="echo")
    running.wait_for("[1]: ")
    running.type("0\n")
    assert running.finish() == 2
    assert b"Store a key:" in running.output
