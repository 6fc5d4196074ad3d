"""Overrides in a subclass or a row take effect, or they are rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_core.providers import EventWriter
from swink_provider_openai import ChatConverter, ChatParser, Dialect, OpenAIProvider
from swink_testing.driver import fold, run_bytes

CONTEXT = swink.Context.of("Hello")
OPTIONS = swink.StreamOptions(base_url="http://acme.test")


@pytest.mark.parametrize("name", ["parser", "features", "knobs"])
def test_an_override_that_nobody_would_ask_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"Acme\.{name} would have no effect: .*\w"):
        type("Acme", (OpenAIProvider,), {name: None})


def test_a_class_of_its_own_reads_the_answers() -> None:
    class Shouting(ChatParser):
        def feed(self, frame: bytes, out: EventWriter) -> None:
            super().feed(frame.replace(b"HI", b"hi"), out)

    class Acme(OpenAIProvider):
        chat_parser = Shouting

    acme: Any = Acme("acme", Dialect())
    message = fold(run_bytes(acme, "acme/large", [_sse({"content": "HI"}), END]))
    assert message.text == "hi"


def _sse(delta: dict[str, Any], **more: Any) -> bytes:
    data = {"choices": [{"index": 0, "delta": delta, **more}]}
    return f"data: {json.dumps(data)}\n\n".encode()


END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

NAMES = {
    "reasoning_content": "reasoning_text",
    "content": "said",
    "usage": "counts",
    "usage.prompt_tokens": "in",
    "usage.completion_tokens": "out",
}


@pytest.mark.parametrize("most", [9, 40])
def test_ids_of_tool_calls_are_as_short_as_a_dialect_says(most: int) -> None:
    converter = ChatConverter("acme", Dialect(tool_id_length=most))
    assert len(converter.tool_id("a" * (most + 1))) <= most
    assert len(converter.tool_id("\ud83d" * (most + 1))) <= most  # a lone surrogate


def test_fields_of_an_answer_may_have_names_of_their_own() -> None:
    acme: Any = OpenAIProvider("acme", Dialect(answer=NAMES))
    counts = b'data: {"choices":[],"counts":{"in":3,"out":2}}\n\n'
    pieces = [_sse({"reasoning_text": "Hm."}), _sse({"said": "Hi."}), END[:-14], counts, END[-14:]]

    message = fold(run_bytes(acme, "acme/large", pieces))

    assert (message.thinking, message.text, message.stop_reason) == ("Hm.", "Hi.", "stop")
    assert message.usage is not None
    assert (message.usage.input, message.usage.output) == (3, 2)


def test_fields_of_a_whole_answer_have_the_same_names() -> None:
    acme: Any = OpenAIProvider("acme", Dialect(answer=NAMES))
    said = {"role": "assistant", "reasoning_text": "Hm.", "said": "Hi."}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    whole = {"id": "1", "choices": [choice], "counts": {"in": 3, "out": 2}}
    out = EventWriter("acme", "1", "acme/large")

    acme.parser(swink.Model("acme", "large")).buffered(json.dumps(whole).encode(), out)

    assert [b.type for b in fold([swink.Start(), *out.take()]).content] == ["thinking", "text"]
    assert out.usage_seen is not None
    assert (out.usage_seen.input, out.usage_seen.output) == (3, 2)


def test_a_class_of_its_own_reads_what_has_been_renamed_already() -> None:
    seen: list[bytes] = []

    class Listening(ChatParser):
        def feed(self, frame: bytes, out: EventWriter) -> None:
            seen.append(frame)
            super().feed(frame, out)

    class Acme(OpenAIProvider):
        chat_parser = Listening

    acme: Any = Acme("acme", Dialect(answer={"content": "said"}))
    fold(run_bytes(acme, "acme/large", [_sse({"said": "Hi."}), END]))
    assert [b"content" in seen[0], b"said" in seen[0]] == [True, False]


@pytest.mark.parametrize("path", ["chat", "/v2/chat/"])
def test_a_service_at_another_path_is_asked_there(path: str) -> None:
    acme = OpenAIProvider("acme", Dialect.of({"path": path}))
    model = swink.Model("acme", "large")
    request = acme.request(model, acme.convert(model, CONTEXT, OPTIONS), OPTIONS)
    assert request.url == f"http://acme.test/{path.strip('/')}"


def test_a_class_may_say_the_whole_address() -> None:
    class Acme(OpenAIProvider):
        def url(self, model: swink.Model, options: swink.StreamOptions) -> str:
            return f"{self.base_url(options)}/models/{model.id}/chat"

    acme = Acme("acme", Dialect())
    model = swink.Model("acme", "large")
    request = acme.request(model, acme.convert(model, CONTEXT, OPTIONS), OPTIONS)
    assert request.url == "http://acme.test/models/large/chat"


def test_names_for_what_is_no_such_field_are_refused() -> None:
    with pytest.raises(ValueError, match=r"dialect\.answer has reasonning; it may have content"):
        Dialect(answer={"reasonning": "thoughts"})


@pytest.mark.parametrize(
    ("name", "near"), [("hedaers", "headers"), ("document_id", "document_ids")]
)
def test_a_field_that_no_dialect_has_is_named_with_its_file_and_the_nearest(
    name: str, near: str
) -> None:
    said = f'dialect in models.toml has "{name}", an unknown field; did you mean "{near}"?'
    with pytest.raises(swink.PluginError) as caught:
        Dialect.of({name: "x"})
    assert caught.value.message.partition("\n")[0] == said


# (a dialect with a wrong value; what is wrong with it)
WRONG_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"thinking": "swich"}, 'has "swich", which is unknown; did you mean "switch"?'),
    ({"replay": "reasonning"}, 'has "reasonning", which is unknown; did you mean "reasoning"?'),
    ({"adds": ["top_kk"]}, 'has "top_kk", which is unknown; did you mean "top_k"?'),
    ({"path": "http://acme.test/chat"}, 'is "http://acme.test/chat", which is a URL'),
    ({"think_tags": "yes"}, "Expected `bool`, got `str` - at `$.think_tags`"),
]


@pytest.mark.parametrize(
    ("row", "what"), WRONG_VALUES, ids=[next(iter(r)) for r, _ in WRONG_VALUES]
)
def test_a_value_that_a_dialect_cannot_have_is_rejected_when_it_is_read(
    row: dict[str, Any], what: str
) -> None:
    with pytest.raises(swink.PluginError) as caught:
        Dialect.of(row)
    [name] = row
    assert name in caught.value.message
    assert what in caught.value.message


TENANT = """
[provider]
name = "quill"
base_url = "https://{tenant}.quill.invalid/v1"
auth = "none"
required_env = ["QUILL_TENANT"]
settings = { tenant = "string" }

[provider.dialect]
places = { tenant = "QUILL_TENANT" }
"""


@pytest.fixture
def quill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], type[OpenAIProvider]]:
    """A function that writes a package's models.toml and returns its provider class."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("QUILL_TENANT", raising=False)
    folder = tmp_path / "catalogue_of_quill"
    folder.mkdir()
    (folder / "__init__.py").touch()

    def write(text: str) -> type[OpenAIProvider]:
        (folder / "models.toml").write_text(text)
        return type("Quill", (OpenAIProvider,), {"__module__": "catalogue_of_quill"})

    return write


Quill = Callable[[str], type[OpenAIProvider]]


def test_a_placeholder_without_a_variable_is_rejected_when_the_provider_is_loaded(
    quill: Quill,
) -> None:
    made = quill(TENANT.replace("{ tenant =", "{ tenat ="))
    said = r'base_url in models\.toml has "\{tenant\}", .*; did you mean "tenat"\?'
    with pytest.raises(swink.PluginError, match=said):
        made("quill")


def test_a_class_that_fills_placeholders_itself_may_have_others(quill: Quill) -> None:
    made = quill(TENANT.replace("{ tenant =", "{ other ="))
    filling = type(
        "Filling", (made,), {"url": lambda *_: "http://acme.test", "__module__": made.__module__}
    )
    assert filling("quill").info.base_url == "https://{tenant}.quill.invalid/v1"


async def test_a_call_without_a_required_variable_or_its_setting_is_not_sent(
    quill: Quill,
) -> None:
    async with swink.Client(providers={"quill": quill(TENANT)}) as client:
        with pytest.raises(swink.AuthenticationError) as caught:
            await client.complete("quill/large", "Hi", base_url="http://127.0.0.1:1")
    assert caught.value.message == (
        'quill needs QUILL_TENANT: neither it nor the setting "tenant" is set'
    )
    assert caught.value.resolution == (
        'Set QUILL_TENANT in the environment, or pass settings={"tenant": …}.'
    )


def test_a_setting_replaces_a_required_variable(quill: Quill) -> None:
    made = quill(TENANT)("quill")
    options = swink.StreamOptions(settings={"tenant": "north"})
    made.require_variables(options)
    assert made.base_url(options) == "https://north.quill.invalid/v1"
    with pytest.raises(swink.ProviderFailure, match='neither it nor the setting "tenant" is set'):
        made.base_url(swink.StreamOptions())


def test_a_setting_that_is_not_declared_is_not_advised(quill: Quill) -> None:
    made = quill(TENANT.replace("settings =", "key_prefixes = []  #"))
    with pytest.raises(swink.ProviderFailure) as caught:
        made("quill").require_variables(swink.StreamOptions())
    assert caught.value.failure.message == "quill needs QUILL_TENANT, which is not set"


def test_only_headers_that_are_set_are_sent() -> None:
    made = OpenAIProvider("acme", Dialect(headers={"X-Project": "ACME_PROJECT", "X-Team": "TEAM"}))
    assert made.own_headers({"ACME_PROJECT": "p"}) == {"X-Project": "p"}


def test_the_users_file_changes_the_address_and_the_dialect_of_calls(
    quill: Quill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = quill(TENANT.replace("places", 'headers = { X-Team = "QUILL_TEAM" }\nplaces'))
    file = tmp_path / "mine.toml"
    file.write_text(
        '[provider]\nname = "quill"\nbase_url = "http://own.invalid"\nrequired_env = []\n'
        '[provider.dialect]\npath = "v2/chat"\n'
    )
    monkeypatch.setenv("SWINK_MODELS", str(file))

    model = swink.Model("quill", "large")
    options = swink.StreamOptions()
    provider = made("quill")

    assert provider.url(model, options) == "http://own.invalid/v2/chat"
    assert provider.own_headers({"QUILL_TEAM": "t"}) == {"X-Team": "t"}
    assert not provider.at_home(options)


async def test_a_wrong_dialect_in_the_users_file_is_reported_with_this_file(
    quill: Quill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = quill(TENANT)
    file = tmp_path / "mine.toml"
    file.write_text('[provider]\nname = "quill"\n[provider.dialect]\nthinking = "swich"\n')
    monkeypatch.setenv("SWINK_MODELS", str(file))
    async with swink.Client(providers={"quill": made}) as client:
        with pytest.raises(swink.PluginError, match='did you mean "switch"') as caught:
            client.stream("quill/large", "Hi")
    assert caught.value.resolution.startswith("Correct its entry in the file that SWINK_MODELS")
