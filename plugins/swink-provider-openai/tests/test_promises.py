"""Overrides in a subclass or a row take effect, or they are rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_core.providers import EventWriter
from swink_provider_openai import ChatParser, Dialect, OpenAIProvider
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


@pytest.fixture
def needy() -> OpenAIProvider:
    """A provider with one header that has to be set and one that may."""
    made = OpenAIProvider("acme", Dialect(headers={"X-Project": "ACME_PROJECT", "X-Team": "TEAM"}))
    made.info = swink.ProviderInfo("acme", required_env=("ACME_PROJECT",))
    return made


def test_a_required_header_that_is_unset_fails_the_call(
    needy: OpenAIProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACME_PROJECT", raising=False)
    model = swink.Model("acme", "large")
    with pytest.raises(swink.ProviderFailure) as caught:
        needy.request(model, needy.convert(model, CONTEXT, OPTIONS), OPTIONS)
    failure = caught.value.failure
    assert failure.kind is Kind.AUTH
    assert failure.message == "no X-Project for acme: ACME_PROJECT is not set"
    assert failure.resolution == "Set ACME_PROJECT in the environment."


def test_only_headers_that_are_set_are_sent(needy: OpenAIProvider) -> None:
    assert needy.own_headers({"ACME_PROJECT": "p"}) == {"X-Project": "p"}
