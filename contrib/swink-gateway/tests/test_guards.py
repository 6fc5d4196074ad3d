"""Guards see what goes out to a vendor, change it or refuse it, and appear in ledger and log."""

from __future__ import annotations

import gc
import tracemalloc
import zlib
from base64 import b64encode, urlsafe_b64encode
from types import SimpleNamespace
from typing import Any

import pytest
from serving import ask, serving

import swink_core as swink
from swink_gateway.policy import guards, readings, text_search
from swink_gateway.policy.config import Config, ConfigError, Source
from swink_gateway.policy.limits import MemoryLedger, Query
from swink_gateway.policy.limits.writer import RowWriter
from swink_gateway.policy.routing import usable
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

FILE = r"""
[guards.cards]
redact = '\b\d(?:[ -]?\d){12,18}\b'
[guards.names]
block = ["Project Zephyr", "geheim"]
[guards.short]
max_prompt_tokens = 100
[keys.alice]
key = "${A}"
guards = ["cards", "names", "short"]
[keys.bob]
key = "${B}"
[routes.best]
tiers = "openai/gpt-4.1-mini"
[routes.guarded]
tiers = "openai/gpt-4.1-mini"
guards = "names"
"""
ALICE, BOB = ({"Authorization": f"Bearer {key}"} for key in "ab")
CARD = "4111 1111 1111 1111"
CHAT = "/v1/chat/completions"
ANSWER = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}'
    b"\n\ndata: [DONE]\n\n"
)
HEADERS = {"Content-Type": "text/event-stream"}
PROVIDERS = {"openai": {"api_key": "k", "api": "chat"}}


def config(text: str = FILE) -> Config:
    return Source("t", text).config({"A": "a", "B": "b"})


def asked(content: Any, model: str = "best", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": content}], **more}


class Served:
    """A guarded gateway, what a vendor was sent, and the ledger."""

    def __init__(self, text: str = FILE) -> None:
        self.http = MemoryHTTPClient(*(MemoryResponse([ANSWER], headers=HEADERS) for _ in range(9)))
        self.ledger = MemoryLedger(rows=RowWriter())
        self._config = config(text)

    async def ask(self, *bodies: dict[str, Any], path: str = CHAT, **more: Any) -> list[Any]:
        """Ask, and return the answers."""
        how = {"headers": ALICE, **more}
        async with serving(
            http=self.http, providers=PROVIDERS, config=self._config, ledger=self.ledger
        ) as gateway:
            return [await ask(gateway, path, body, **how) for body in bodies]

    async def rows(self) -> list[tuple[str, str, float | None]]:
        entries = await self.ledger.entries(Query())
        return [(one.outcome, one.tags, one.cost) for one in entries]


async def test_what_a_pattern_matches_is_removed_before_it_goes_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = Served()
    tool = {"name": "f", "description": f"for {CARD}", "parameters": {"type": "object"}}
    body = asked(f"My card is {CARD}.", tools=[{"type": "function", "function": tool}])
    [answer] = await served.ask(body)
    assert answer.status == 200, answer.body
    [sent] = served.http.bodies
    assert sent["messages"][-1]["content"] == "My card is [removed]."
    assert sent["tools"][0]["function"]["description"] == "for [removed]"
    [(outcome, tags, _)] = await served.rows()
    assert (outcome, tags) == ("stop", "guard:cards")
    call = answer.headers["x-swink-call"]
    noted = f"the guard 'cards' removed 2 texts from a request of 'alice' (call {call})"
    assert noted in caplog.text
    assert CARD not in caplog.text


# (where the word is)
BLOCKED: list[dict[str, Any]] = [
    asked("about project zephyr"),
    asked([{"type": "text", "text": "ＧＥＨＥＩＭ"}]),
    asked("ge\u200bheim"),
    asked("about Project\n    Zephyr"),
    asked("project\u00a0\u00a0zephyr"),
    asked("about \u202eproject\u202c zephyr"),
    asked("p\ufe0froject\U000e0001 zep\u034fhy\x00r"),
    asked("project\n  zephyr"),
    asked("project\u3164zephyr"),
    asked("_geheim_"),
    {"model": "best", "messages": [{"role": "system", "content": "geheim"}]},
    asked("Hi", tools=[{"type": "function", "function": {"name": "f", "description": "geheim"}}]),
    asked("Hi", metadata={"geheim": "x"}),
]


@pytest.mark.parametrize("body", BLOCKED, ids=str)
async def test_a_blocked_word_refuses_a_request_and_costs_nothing(
    body: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    served = Served()
    [answer] = await served.ask(body)
    assert (answer.status, served.http.requests) == (400, [])
    assert "the gateway's guard 'names' refused the request" in answer.json["error"]["message"]
    assert await served.rows() == [("content_filtered", "guard:names", 0.0)]
    assert "the guard 'names' refused a request of 'alice'" in caplog.text


def calls_in_memory() -> list[swink.Call]:
    return [one for one in gc.get_objects() if type(one) is swink.Call]


async def test_a_guarded_call_is_freed_without_the_collector() -> None:
    served = Served()
    gc.collect()
    gc.disable()
    try:
        before = calls_in_memory()
        await served.ask(asked("Hi"))
        left = [one for one in calls_in_memory() if one not in before]
    finally:
        gc.enable()
    assert left == []


async def test_a_part_of_a_longer_word_is_not_blocked() -> None:
    [answer] = await Served().ask(asked("Geheimnis"))
    assert answer.status == 200


async def test_a_long_prompt_is_refused_as_too_long() -> None:
    served = Served()
    short, long = await served.ask(asked("word " * 50), asked("word " * 200))
    assert (short.status, long.status) == (200, 400)
    assert long.json["error"]["code"] == "context_length_exceeded"
    assert len(served.http.requests) == 1


async def test_guards_belong_to_keys_and_routes() -> None:
    served = Served()
    bodies = [asked("geheim"), asked("geheim", "guarded"), asked(CARD, "guarded")]
    answers = await served.ask(*bodies, headers=BOB)
    assert [answer.status for answer in answers] == [200, 400, 200]
    assert served.http.bodies[-1]["messages"][-1]["content"] == CARD


async def test_what_an_earlier_answer_left_is_guarded_too() -> None:
    """A conversation that goes on by an id goes out in full."""
    served = Served(FILE.replace('block = ["Project Zephyr", "geheim"]', 'block = ["Hello"]'))
    first = {"model": "best", "input": "Hi"}
    async with serving(
        http=served.http, providers=PROVIDERS, config=served._config, ledger=served.ledger
    ) as gateway:
        one = await ask(gateway, "/v1/responses", first, headers=ALICE)
        again = {**first, "previous_response_id": one.json["id"]}
        other = await ask(gateway, "/v1/responses", again, headers=ALICE)
    assert (one.status, other.status) == (200, 400)
    assert len(served.http.requests) == 1


# -- plugins ---------------------------------------------------------------------------------------


def upper(suffix: str = "") -> guards.PluginGuard:
    """A guard that a package might bring."""

    def check(body: dict[str, Any]) -> dict[str, Any]:
        if "raise" in str(body):
            raise KeyError("a fault")
        if "exit" in str(body):
            raise SystemExit("not the gateway's end")
        if "nothing" in str(body):
            return None  # type: ignore[return-value]  # a plugin without types
        body["messages"][-1]["content"] = body["messages"][-1]["content"].upper() + suffix
        return body

    return check


PLUGIN = """
[guards.loud]
plugin = "upper"
settings = { suffix = "!" }
[keys.alice]
key = "${A}"
guards = "loud"
[routes.best]
tiers = "openai/gpt-4.1-mini"
"""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"upper": SimpleNamespace(load=lambda: upper)}
    monkeypatch.setattr(guards, "_installed", lambda: found)


@pytest.mark.usefixtures("installed")
async def test_a_plugin_changes_what_goes_out() -> None:
    served = Served(PLUGIN)
    await served.ask(asked("hi"))
    assert served.http.bodies[0]["messages"][-1]["content"] == "HI!"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("how", ["raise", "exit", "nothing"])
async def test_a_guard_that_fails_lets_nothing_out(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(PLUGIN)
    [answer] = await served.ask(asked(how))
    assert (answer.status, served.http.requests) == (500, [])
    assert "the guard failed, so the request was not sent" in answer.json["error"]["message"]
    assert await served.rows() == [("internal", "guard:loud", 0.0)]
    assert "the guard 'loud' failed" in caplog.text


async def test_a_provider_that_does_not_show_its_requests_is_not_asked() -> None:
    target: Any = SimpleNamespace(
        binding=SimpleNamespace(provider=object()), model=swink.Model("hidden", "m")
    )
    call: Any = SimpleNamespace(id="c1")
    guard = guards.Guard.made("names", config().guards["names"])
    with pytest.raises(swink.ProviderFailure, match="hidden does not show guards what it sends"):
        await guards.CallGuards("alice", call, [guard]).enter(target)


# (what the file has, what is wrong with it)
FAULTS = [
    ("[guards.a]", "redact, block, max_prompt_tokens or plugin was expected"),
    ('[guards.a]\nredact = "("', "it is not a regular expression"),
    ('[guards.a]\nredact = "a*"', "it matches an empty text"),
    ('[guards.a]\nplugin = "absent"', "no plugin 'absent' is installed"),
    ('[guards.a]\nblock = ["x", " "]', "block has a word without visible characters"),
    ('[guards."a b"]\nblock = "x"', "letters, digits"),
    ('[routes.r]\ntiers = "echo/echo"\nguards = "a"', "unknown name 'a'"),
    ('[keys.k]\nkey = "${A}"\nguards = "a"', "unknown name 'a'"),
]


@pytest.mark.parametrize(("text", "why"), FAULTS)
async def test_a_file_whose_guards_cannot_work_is_not_used(text: str, why: str) -> None:
    async with swink.Client() as client:
        with pytest.raises(ConfigError, match=why):
            usable(client, Source("t", text), {"A": "a"})


# -- evasions --------------------------------------------------------------------------------------


def calling(arguments: str) -> dict[str, Any]:
    """Return a request with a tool call of the assistant."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "Done."},
    ]
    return {"model": "best", "messages": messages}


# (the arguments of a call, as they go out)
ARGUMENTS = [
    (f'{{"a": "{CARD}"}}', '{"a":"[removed]"}'),
    ('{"a": 4111111111111111, "b": 1.50}', '{"a":"[removed]","b":1.5}'),
    ('{"a": [{"b": 4111111111111111}, true]}', '{"a":[{"b":"[removed]"},true]}'),
    (r'{"a": "4111\u00201111 1111 1111"}', '{"a":"[removed]"}'),
    (f'{{"type": "{CARD}"}}', '{"type":"[removed]"}'),
    (f'{{"a": "{CARD}", "a": 1}}', '{"a": "[removed]", "a": 1}'),
    (f'{{"a": "{CARD}', '{"a": "[removed]'),
    (r'{"a": "4111\u00201111 1111 1111', '{"a": "[removed]'),
    ('{"a": 1.50}', '{"a": 1.50}'),
]


@pytest.mark.parametrize(("arguments", "sent"), ARGUMENTS)
def test_redacted_arguments_of_a_call_stay_json(arguments: str, sent: str) -> None:
    guard = guards.Guard.made("cards", config().guards["cards"])
    body, _ = guard.checked(calling(arguments))
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == sent


# (a text, as it goes out)
SHOWN = [
    ("my 4111\u200b1111\u200b1111\u200b1111.", "my [removed]."),
    ("my ４１１１ 1111 1111 1111.", "my [removed]."),
    ("4111\\u00201111 1111 1111", "[removed]"),
    ("no\u200bcard\\n", "no\u200bcard\\n"),
    ("4111\u31641111\u11601111\u28001111", "[removed]"),
    ("4111\x1c1111\x1f1111 1111", "[removed]"),
    ("5500\u200b0000 0000 0004 and \\u0034111111111111111", "[removed] and [removed]"),
]


@pytest.mark.parametrize(("text", "sent"), SHOWN, ids=ascii)
def test_redaction_sees_what_readers_see(text: str, sent: str) -> None:
    guard = guards.Guard.made("cards", config().guards["cards"])
    body, _ = guard.checked(asked(text))
    assert body["messages"][0]["content"] == sent


def test_escapes_of_a_long_text_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    text = r"ab\ud83d\ude00\ud83d\u0041bc\ud83d\ud83d\ude00\ude00\\u0041 \u00"
    for size in range(1, 12):
        monkeypatch.setattr(readings, "PIECE", size)
        plain = next(readings.unescaped(text))
        assert plain == "ab😀\ufffdAbc\ufffd😀\ufffd\\u0041 \\u00", size


@pytest.mark.parametrize(
    "arguments",
    [
        r'{"a": "\u0070roject zephyr"}',
        r'{"a": "project\nzephyr"}',
        r'"{\"a\": \"\\u0070roject zephyr\"}"',
    ],
)
def test_escapes_do_not_hide_a_blocked_word(arguments: str) -> None:
    guard = guards.Guard.made("names", config().guards["names"])
    with pytest.raises(swink.ProviderFailure, match=r"function\.arguments: a blocked word"):
        guard.checked(calling(arguments))


EMPTY = "\u3164\u115f\u1160\uffa0\u2800\x1c\x1f\ufdd0\uffff\ufffc"


@pytest.mark.parametrize("hidden", EMPTY, ids=ascii)
def test_an_invisible_letter_hides_no_blocked_word(hidden: str) -> None:
    guard = guards.Guard.made("names", config().guards["names"])
    with pytest.raises(swink.ProviderFailure, match="a blocked word"):
        guard.checked(asked(f"ge{hidden}heim"))


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


# (the form of a text document in a vendor's API)
DOCUMENTS: list[Any] = [
    lambda data: {"type": "file", "file": {"file_data": f"data:text/plain;base64,{data}"}},
    lambda data: {"type": "input_file", "file_data": f"DATA:text/x;charset=utf-8;base64,{data}"},
    lambda data: {"type": "document_url", "document_url": f"data:text/markdown;base64,{data}"},
    lambda data: {"inlineData": {"mimeType": "text/plain", "data": data}},
    lambda data: {"document": {"format": "txt", "source": {"bytes": data}}},
]


@pytest.mark.parametrize("written", DOCUMENTS)
def test_guards_read_the_text_documents_that_the_gateway_encodes(written: Any) -> None:
    words, cards = (guards.Guard.made(n, config().guards[n]) for n in ("names", "cards"))
    with pytest.raises(swink.ProviderFailure, match="a blocked word"):
        words.checked(asked([written(encoded("ein geheim >>>"))]))
    body, did = cards.checked(asked([written(encoded(f"my {CARD}"))]))
    assert body["messages"][0]["content"] == [written(encoded("my [removed]"))]
    assert did == "removed 1 texts from a request"
    same = asked([written(encoded("\xe9t\xe9"))])
    assert cards.checked(same) == (same, "")


@pytest.mark.parametrize(
    "data",
    [
        urlsafe_b64encode("geheim ÿÿÿ???>>>".encode()).decode(),
        encoded("geheim")[:4] + "\n" + encoded("geheim")[4:],
        encoded("geheim !").rstrip("="),
    ],
)
def test_every_form_of_base64_that_vendors_accept_is_read(data: str) -> None:
    guard = guards.Guard.made("names", config().guards["names"])
    with pytest.raises(swink.ProviderFailure, match="a blocked word"):
        guard.checked(asked([{"inlineData": {"mimeType": "text/plain", "data": data}}]))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-32"])
def test_text_documents_in_other_encodings_are_read(encoding: str) -> None:
    words, cards = (guards.Guard.made(n, config().guards[n]) for n in ("names", "cards"))

    def document(text: str) -> dict[str, Any]:
        data = b64encode(text.encode(encoding)).decode()
        return asked([{"inlineData": {"mimeType": "text/plain", "data": data}}])

    with pytest.raises(swink.ProviderFailure, match="a blocked word"):
        words.checked(document("\xe9t\xe9 geheim"))
    assert cards.checked(document(f"\xe9 {CARD}"))[0] == document("\xe9 [removed]")


@pytest.mark.parametrize("control", [b"\x00", b"\x01", b"\x07", b"\x08", b"\x1a"])
def test_a_document_with_control_characters_is_read_as_text(control: bytes) -> None:
    words, cards = (guards.Guard.made(n, config().guards[n]) for n in ("names", "cards"))

    def document(text: bytes) -> dict[str, Any]:
        data = b64encode(text + control).decode()
        return asked([{"inlineData": {"mimeType": "text/plain", "data": data}}])

    with pytest.raises(swink.ProviderFailure, match="a blocked word"):
        words.checked(document(b"\xe9t\xe9 geheim"))
    assert cards.checked(document(b"\xe9 4111 1111 1111 1111 "))[0] == document(b"\xe9 [removed] ")


LINES = b"ein geheim, 4111 1111 1111 1111\n" * 9

MARKED = {
    "a PNG image": b"\x89PNG\r\n\x1a\n" + LINES,
    "an archive": b"\x1f\x8b\x08" + LINES,
    "half a character": LINES.decode().encode("utf-16") + b"x",
    "the mark of UTF-16": b"\xff\xfe" + LINES,
    "the mark of UTF-32": b"\xff\xfe\0\0" + LINES + b"x",
}
"""Texts that begin or end as no text does."""


@pytest.mark.parametrize("what", MARKED)
def test_a_text_that_only_looks_like_other_data_is_read(what: str) -> None:
    words, cards = (guards.Guard.made(n, config().guards[n]) for n in ("names", "cards"))
    data = b64encode(MARKED[what]).decode()
    body = asked([{"inlineData": {"mimeType": "text/plain", "data": data}}])
    with pytest.raises(swink.ProviderFailure, match="a blocked word"):
        words.checked(body)
    assert cards.checked(body)[1] == "removed 9 texts from a request"


def test_compressed_data_is_not_read_as_text() -> None:
    data = b64encode(zlib.compress(bytes(range(256)) * 9) + b" geheim \xff").decode()
    body = asked([{"inlineData": {"mimeType": "image/x", "data": data}}])
    assert guards.Guard.made("names", config().guards["names"]).checked(body) == (body, "")


def test_binary_data_is_not_read_as_text() -> None:
    data = b64encode(b"%PDF\x00\x01\xff 4111 1111 1111 1111").decode()
    body = asked([{"inlineData": {"mimeType": "application/pdf", "data": data}}])
    assert guards.Guard.made("cards", config().guards["cards"]).checked(body) == (body, "")


def test_data_that_is_a_plain_text_is_checked_as_it_is() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": f"geheim {CARD}"}
    body = asked([{"type": "document", "source": source}])
    words, cards = (guards.Guard.made(n, config().guards[n]) for n in ("names", "cards"))
    with pytest.raises(swink.ProviderFailure, match="a blocked word"):
        words.checked(body)
    sent, _ = cards.checked(body)
    assert sent["messages"][0]["content"][0]["source"]["data"] == "geheim [removed]"


@pytest.mark.parametrize("name", ["type", "role", "model", "signature", "encrypted_content"])
@pytest.mark.parametrize(
    "place",
    [
        "metadata", "args", "response", "default", "const", "documents", "variables",
        "promptVariables", "chat_template_kwargs", "properties", "$defs",
    ],
)  # fmt: skip
def test_fields_of_the_client_are_redacted_whatever_their_names(place: str, name: str) -> None:
    guard = guards.Guard.made("cards", config().guards["cards"])
    own: dict[str, Any] = {place: {name: CARD, CARD: 1, "n": [CARD]}}
    body, _ = guard.checked(asked("Hi", **own))
    assert body[place] == {name: "[removed]", "[removed]": 1, "n": ["[removed]"]}


def test_long_numbers_are_redacted_in_all_fields_and_short_ones_where_clients_define_them() -> None:
    guard = guards.Guard.made("cards", guards.RequestGuard(redact=(r"\b4111\d*\b",)))
    own = {"documents": [{"data": {"card": 4111111111111111, "n": [4111111111111111.0]}}]}
    body, _ = guard.checked(asked("Hi", max_tokens=4111, seed=True, args={"pin": 4111}, **own))
    assert body["documents"] == [{"data": {"card": "[removed]", "n": ["[removed].0"]}}]
    assert (body["max_tokens"], body["seed"], body["args"]) == (4111, True, {"pin": "[removed]"})


def test_names_that_are_redacted_to_the_same_text_stay_apart() -> None:
    guard = guards.Guard.made("cards", config().guards["cards"])
    arguments = {CARD: 1, "[removed]": 2, CARD.replace(" ", ""): 3}
    body, _ = guard.checked(asked("Hi", args=arguments))
    assert body["args"] == {"[removed]_": 1, "[removed]": 2, "[removed]__": 3}


@pytest.mark.parametrize(
    "text",
    ["\U0001f600" + "a" * 300, "a\n" * 600, "\\u0041" * 200, encoded("\U0001f600" + "a" * 300)],
    ids=["wide", "lines", "escapes", "document"],
)
def test_a_text_whose_readings_take_too_much_memory_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "MOST_READ_BYTES", 1_000)
    body = asked([{"inlineData": {"mimeType": "text/plain", "data": text}}])
    plain = asked("a" * 2_000)
    for name in ("names", "cards"):
        guard = guards.Guard.made(name, config().guards[name])
        with pytest.raises(swink.UsageError, match="too long to be searched"):
            guard.checked(body)
        assert guard.checked(plain) == (plain, "")


def test_the_blanks_in_a_document_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_search, "CHANGED_PIECE", 1_000)
    data = "ab " * 20_000
    tracemalloc.start()
    try:
        assert readings.documents("data", data)[0].text
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(data)
