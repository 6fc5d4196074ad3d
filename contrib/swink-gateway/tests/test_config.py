"""The configuration: valid files, and the faults reported for invalid ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import swink_core as swink
from swink_gateway.policy.config import ConfigError, Source, Transforms, Upstream
from swink_gateway.policy.config.lines import line_of, written
from swink_gateway.policy.limits import Store
from swink_gateway.policy.routing import usable

WHOLE = """
[aliases]
"gpt-4o" = "best"

[routes.best]
tiers = [
  [{ model = "echo/echo", weight = 3 }, { model = "echo/think", options = { api_key = "${UP}" } }],
  "echo/slow",
]
options = { temperature = 0.5, retry = { retries = { network = 2 } } }
time_limits = { first_event = 20, idle = false }

[routes.best.transforms]
system_prompt = "Say $${no} ${EMPTY}more, $${."
defaults = { thinking = "low" }
leave_out = ["seed", "tools"]
max_tokens = 1000

[[rules]]
when = { models = ["claude-*"], background = true, longer_than = 60_000 }
to = "best"

[keys.alice]
key = ["${ALICE}", "sha256:DIGEST"]
models = "best"
requests_per_minute = 60
dollars_per_day = 0.5
operator = true

[store]
engine = "sqlite"
path = "/var/lib/limits.db"
""".replace("DIGEST", "0f" * 32)

ENVIRON = {"ALICE": "alices-secret", "UP": "upstream-secret", "EMPTY": ""}


def test_a_file_with_every_table_is_read() -> None:
    config = Source("team.toml", WHOLE).config(ENVIRON)
    best = config.routes["best"]
    assert config.aliases == {"gpt-4o": "best"}
    assert best.tiers == (
        (
            Upstream(model="echo/echo", weight=3.0),
            Upstream(model="echo/think", options={"api_key": "upstream-secret"}),
        ),
        (Upstream(model="echo/slow"),),
    )
    assert best.options["temperature"] == 0.5
    none = swink.RetryPolicy.none().retries
    assert best.options["retry"].retries == {**none, swink.StreamErrorKind.NETWORK: 2}
    assert best.time_limits == swink.Timeouts(first_event=20, idle=None)
    assert best.transforms == Transforms(
        system_prompt="Say ${no} more, ${.",
        defaults={"thinking": swink.ThinkingLevel.LOW},
        leave_out=("seed", "tools"),
        max_tokens=1000,
    )
    assert config.rules[0].when.models == ("claude-*",)
    alice = config.keys["alice"]
    assert alice.key == (hashlib.sha256(b"alices-secret").digest(), b"\x0f" * 32)
    assert (alice.requests_per_minute, alice.tokens_per_minute, alice.operator) == (60, None, True)
    assert config.store == Store("sqlite", Path("/var/lib/limits.db"))


KEYS_OF_VARIABLES: list[tuple[str, str, list[str]]] = [
    ("'${A}'", "one", ["one"]),
    ("'${A}'", " one\n", ["one"]),
    ("'${SWINK_GATEWAY_KEY}'", "one\n", ["one"]),
    ("'${SWINK_GATEWAY_KEY}'", " one two\tone ", ["one", "two"]),
    ("['${SWINK_GATEWAY_KEY}', '${THIRD}']", "one two", ["one", "two", "three"]),
]
"""The text in the file, the first variable, and the keys."""


@pytest.mark.parametrize(("said", "held", "keys"), KEYS_OF_VARIABLES)
def test_a_variable_contains_keys_without_the_spaces_around_them(
    said: str, held: str, keys: list[str]
) -> None:
    environ = {"A": held, "SWINK_GATEWAY_KEY": held, "THIRD": "three"}
    config = Source("team.toml", f"[keys.a]\nkey = {said}").config(environ)
    assert config.keys["a"].key == tuple(hashlib.sha256(key.encode()).digest() for key in keys)


def test_the_configurations_repr_shows_no_secret() -> None:
    shown = repr(Source("team.toml", WHOLE).config(ENVIRON))
    assert "secret" not in shown
    assert "0f0f" not in shown


FAULTS = [
    ("[keyz]", "1: keyz: unknown name 'keyz'; did you mean keys?"),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptons = {}",
        "3: routes.a.optons: unknown name 'optons'; did you mean options?",
    ),
    ("\n[routes.a]", "2: routes.a.tiers: is missing"),
    ("[routes.a]\ntiers = []", "2: routes.a.tiers: expected a model in each tier"),
    ("[routes.a]\ntiers = ['e/f', 3]", "2: routes.a.tiers[1]: expected a table, not a number"),
    (
        "[routes.a]\ntiers = [\n 'echo/echo',\n # two\n { model = 'echo/echo', weight = 0 },\n]",
        "5: routes.a.tiers[1].weight: expected a number above 0, not 0",
    ),
    ("[routes.a]\ntiers = 'ecoh/x'", '2: routes.a.tiers[0][0]: no provider "ecoh"'),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptions.settings.x = 1",
        "2: routes.a.tiers[0][0]: echo has no setting 'x'",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptions = { temperatur = 1 }",
        "3: routes.a.options.temperatur: unknown name 'temperatur'; did you mean temperature?",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\n[routes.a.options]\nretry.base = -1",
        "4: routes.a.options.retry.base: base=-1: expected a number >= 0.0",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptions.top_k = 'x'",
        "3: routes.a.options.top_k: top_k='x': expected a whole number, got a string",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptions.temperature = []",
        "3: routes.a.options.temperature: temperature=[]: expected a number, got a list",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptions.retry = 3",
        "3: routes.a.options.retry: expected a table, not a number",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptions.timeouts.idle = 3",
        "3: routes.a.options.timeouts: set time_limits of the route instead",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptions.base_url = '${SECRET}'",
        "3: routes.a.options.base_url: expected an address that begins with http:// or https://",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\ntime_limits.first = 3",
        "3: routes.a.time_limits.first: unknown name 'first'; did you mean first_event?",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\ntransforms.leave_out = 'tool'",
        "3: routes.a.transforms.leave_out: unknown name 'tool'; did you mean tools?",
    ),
    (
        "[routes.a]\ntiers = 'echo/echo'\ntransforms.max_tokens = 1.5",
        "3: routes.a.transforms.max_tokens: expected a whole number above 0, not 1.5",
    ),
    ("[aliases]\na = 'nobody'", "2: aliases.a: expected a route or a model: 'nobody' is"),
    (
        "[routes.best]\ntiers = 'echo/echo'\n[aliases]\na = 'bestt'",
        "4: aliases.a: expected a route or a model: 'bestt' is not a model name: write "
        "provider/id; did you mean best?",
    ),
    (
        "[routes.cheap]\ntiers = 'echo/echo'\n[[rules]]\nwhen = {}\nto = 'chep'",
        "write provider/id; did you mean cheap?",
    ),
    ("[aliases]\n'a b' = 1", '2: aliases."a b": expected a string, not a number'),
    (
        "[aliases]\na = 'echo/echo'\n[routes.a]\ntiers = 'echo/echo'",
        "2: aliases.a: a route has the same name",
    ),
    ("[[rules]]\nto = 'echo/echo'", "1: rules[0].when: is missing"),
    (
        "[[rules]]\nwhen = {}\nto = 'echo/echo'\n[[rules]]\nwhen.tool = 1\nto = 'echo/echo'",
        "5: rules[1].when.tool: unknown name 'tool'; did you mean tools?",
    ),
    (
        "[[rules]]\nwhen.thinking = 'high'\nto = 'echo/echo'",
        "2: rules[0].when.thinking: expected true or false, not a string",
    ),
    (
        "[[rules]]\nwhen = {}\nto = 'nobody'",
        "3: rules[0].to: expected a route or a model: 'nobody' is",
    ),
    ("[keys.a]\nkey = 'plain'", '2: keys.a.key: expected "sha256:" and 64 hexadecimal digits, or'),
    ("\n[routes.'']\ntiers = 'echo/echo'", '2: routes."": expected a name'),
    ("\n[aliases]\n'' = 'echo/echo'", '3: aliases."": expected a name'),
    (
        "[routes.a]\ntiers = '${NONE}'",
        "2: routes.a.tiers: the environment variable 'NONE' is not set",
    ),
    ("keys = 3", "1: keys: expected a table, not a number"),
    ("\n[[keys]]\nkey = '${SECRET}'", "2: keys: expected a table, not a list"),
    ("[keys]\na = '${SECRET}'", "2: keys.a: expected a table, not a string"),
    ("[keys.a]\nkey = []", "2: keys.a.key: expected a key"),
    ("[keys.a]\nkey = '${NONE}'", "2: keys.a.key: the environment variable 'NONE' is not set"),
    ("[keys.a]\nkey = '${EMPTY}'", "2: keys.a.key: the environment variable 'EMPTY' is empty"),
    (
        "[keys.a]\nkey = '${TWO}'",
        "2: keys.a.key: the environment variable 'TWO' contains a space; expected a single key",
    ),
    (
        "[keys.a]\nkey = [\n'${SECRET}',\n'${TWO}',\n]",
        "4: keys.a.key[1]: the environment variable 'TWO' contains a space; expected",
    ),
    ("[keys.a]\nkey = [['${SECRET}']]", "2: keys.a.key[0]: expected a string, not a list"),
    ("[keys.a]\nkey = '${SECRET'", "2: keys.a.key: '${' without '}'; write '$${' for"),
    (
        "[routes.a]\ntiers = 'echo/echo'\noptions.api_key = '${EMPTY}'",
        "3: routes.a.options.api_key: the environment variable 'EMPTY' is empty",
    ),
    (
        "[keys.a]\nkey = '${SECRET}'\n[keys.b]\nkey = '${SECRET}'",
        "4: keys.b.key: the same key belongs to a",
    ),
    ("\n[keys.'']\nkey = '${SECRET}'", '2: keys."": expected the name of the key\'s owner'),
    (
        "[keys.a]\nkey = '${SECRET}'\ndollars_per_day = '5'",
        "3: keys.a.dollars_per_day: expected a number above 0, not a string",
    ),
    (
        "[store]\nengine = 'mysql'",
        "2: store.engine: expected one of memory, sqlite, postgres, redis",
    ),
    ("[store]\nengine = 'redis'", "1: store.url: is missing; redis requires it"),
    ("\n[store", "2: Expected ']' at the end of a table declaration"),
    ("a = 1\na = 2", "2: the key a occurs twice"),
    ("[keys.carl]\nteam = 'a'\nteam = 'b'\n\n", "3: the key team occurs twice"),
    ("a = 1\n'b c' = [\n]\na = [\n]\n", "5: Cannot overwrite a value"),
    ("[routes.a]\n[routes.a]", "2: Cannot declare routes.a twice"),
    ("['a b'.\"it's\"]\n['a b'.\"it's\"]", """2: Cannot declare "a b"."it's" twice"""),
]


@pytest.fixture(scope="module")
def client() -> swink.Client:
    """Return a client that sends no requests."""
    return swink.Client()


@pytest.mark.parametrize(("text", "told"), FAULTS, ids=[told for _, told in FAULTS])
def test_a_fault_has_line_key_and_expectation(client: swink.Client, text: str, told: str) -> None:
    source = Source("team.toml", text)
    with pytest.raises(ConfigError) as raised:
        usable(client, source, {"SECRET": "the-secret", "EMPTY": "", "TWO": "secret 2"})
    (line,) = str(raised.value.message).splitlines()
    assert told in line
    assert line.startswith("team.toml:")
    assert "secret" not in line


def test_all_faults_are_reported_at_once_in_line_order() -> None:
    text = "[store]\nengin = 1\n[aliases]\na = 1\nb = 2\n"
    with pytest.raises(ConfigError) as raised:
        Source("x", text).config({})
    told = raised.value.message.splitlines()
    assert [line.split(": ")[:2] for line in told] == [
        ["x:2", "store.engin"], ["x:4", "aliases.a"], ["x:5", "aliases.b"],
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"\xff", b"#" * (1024 * 1024 + 1)], ids=["no UTF-8", "too long"])
def test_an_unreadable_file_is_reported(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "team.toml"
    with pytest.raises(ConfigError, match=r"team\.toml: No such file"):
        Source.of(file)
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"team\.toml: "):
        Source.of(file)


LINES = '''# one
[routes.best]
# why
tiers = [
  ["a/b",
   { model = "c/d", weight = 1 }],

  "e/f",
]
[routes.best.options]
user = """
[aliases]
"""
seed = 1
[[rules]]
to = "x"
[[rules]]
when = { thinking = true }
'''

PLACES = [
    (("routes", "best"), 2),
    (("routes", "best", "tiers"), 4),
    (("routes", "best", "tiers", 0, 1, "weight"), 6),
    (("routes", "best", "tiers", 1), 8),
    (("routes", "best", "options", "user"), 11),
    (("routes", "best", "options", "seed"), 14),
    (("rules", 0, "to"), 16),
    (("rules", 1, "when", "thinking"), 18),
    (("routes", "best", "nothing", 3), 2),
    (("nothing",), 1),
]


@pytest.mark.parametrize(("path", "line"), PLACES, ids=[written(path) for path, _ in PLACES])
def test_a_values_line_is_found_in_every_notation(path: tuple[str, ...], line: int) -> None:
    assert line_of(LINES, path) == line
    assert line_of(LINES.replace("\n", "\r\n"), path) == line
