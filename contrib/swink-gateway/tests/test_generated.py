"""Clients read the images, the code and the refusals of other vendors in their SDK's own fields."""

from __future__ import annotations

from typing import Any

import pytest
from serving import Answer, Scripted, ask, serving

import swink_core as swink
from swink_core import AssistantMessage, ExtensionBlock

PNG = "iVBORw0KGgo="
INLINE = {"inlineData": {"mimeType": "image/png", "data": PNG}}
CALL = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}
CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
OUTPUT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
INTERPRETER = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "code": "print(1)",
    "outputs": [{"type": "logs", "logs": "1\n"}],
}

HI = {"role": "user", "content": "Hi"}

GEMINI, OPENAI = "gemini/gemini-3.6-flash", "openai/gpt-5.4"
OWN = {"gemini": {"api_key": "k"}, "openai": {"api_key": "k"}}

ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Draw"}]}),
    "responses": ("/v1/responses", {"input": "Draw"}),
    "gemini": ("/v1beta/models/{}:{}", {"contents": [{"parts": [{"text": "Draw"}]}]}),
}


async def answered(
    client: str, model: str, stream: bool, *blocks: tuple[str, Any], **more: Any
) -> tuple[Scripted, Answer]:
    provider = model.partition("/")[0]
    said = [
        swink.Extension(number, provider, kind, data)
        for number, (kind, data) in enumerate(blocks, start=1)
    ]
    end = swink.Done(swink.StopReason.STOP)
    text = [swink.TextStart(0), swink.TextDelta(0, "So"), swink.TextEnd(0)]
    upstream = Scripted([swink.Start(), *text, *said, end])
    path, body = ASKS[client]
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    async with serving(upstream, providers=OWN) as gateway:
        sent = {"model": model, "stream": stream, **body, **more}
        return upstream, await ask(gateway, path.format(model, method), sent)


def images_of(client: str, answer: Answer, stream: bool) -> list[str]:
    if client == "chat":
        said = answer.frames[:-1] if stream else [answer.json]
        each = [c.get("delta", c.get("message")) for f in said for c in f["choices"]]
        return [i["image_url"]["url"] for one in each for i in one.get("images", ())]
    if client == "responses":
        last = answer.frames[-1]["response"] if stream else answer.json
        return [i["result"] for i in last["output"] if i["type"] == "image_generation_call"]
    frames = answer.frames if stream else [answer.json]
    parts = [p for f in frames for c in f["candidates"] for p in c["content"]["parts"]]
    return [p["inlineData"]["data"] for p in parts if "inlineData" in p]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("client", ASKS)
@pytest.mark.parametrize(
    ("model", "kind", "data"),
    [(GEMINI, "inlineData", INLINE), (OPENAI, "image_generation_call", CALL)],
    ids=["Gemini's", "OpenAI's"],
)
async def test_a_generated_image_has_the_field_of_the_clients_api(
    client: str, model: str, kind: str, data: Any, stream: bool
) -> None:
    _, answer = await answered(client, model, stream, (kind, data))
    image = f"data:image/png;base64,{PNG}" if client == "chat" else PNG
    assert images_of(client, answer, stream) == [image]


async def test_code_and_its_output_are_items_of_the_code_interpreter() -> None:
    blocks = ("executableCode", CODE), ("codeExecutionResult", OUTPUT)
    _, answer = await answered("responses", GEMINI, False, *blocks)
    made = [i for i in answer.json["output"] if i["type"] == "code_interpreter_call"]
    assert [(item["code"], item["outputs"]) for item in made] == [
        ("print(1)", None),
        (None, [{"type": "logs", "logs": "1\n"}]),
    ]


async def test_code_of_the_interpreter_is_a_part_of_geminis() -> None:
    _, answer = await answered("gemini", OPENAI, False, ("code_interpreter_call", INTERPRETER))
    (candidate,) = answer.json["candidates"]
    assert [
        p["executableCode"] for p in candidate["content"]["parts"] if "executableCode" in p
    ] == [{"language": "PYTHON", "code": "print(1)"}]


@pytest.mark.parametrize("kind", ["image", "code"])
@pytest.mark.parametrize("client", ["responses", "gemini"])
async def test_a_block_that_a_client_sends_back_reaches_its_vendor_once(
    client: str, kind: str
) -> None:
    given: dict[tuple[str, str], tuple[str, str, Any]] = {
        ("responses", "image"): (GEMINI, "inlineData", INLINE),
        ("responses", "code"): (GEMINI, "executableCode", CODE),
        ("gemini", "image"): (OPENAI, "image_generation_call", CALL),
        ("gemini", "code"): (OPENAI, "code_interpreter_call", INTERPRETER),
    }
    model, name, data = given[client, kind]
    _, answer = await answered(client, model, False, (name, data))
    if client == "responses":
        before = [{"role": "user", "content": "Draw"}, *answer.json["output"]]
        more = {"input": [*before, {"role": "user", "content": "Again"}]}
    else:
        (candidate,) = answer.json["candidates"]
        before = [{"parts": [{"text": "Draw"}]}, candidate["content"]]
        more = {"contents": [*before, {"parts": [{"text": "Again"}]}]}
    upstream, _ = await answered(client, model, False, **more)
    said = [m for m in upstream.context.messages if isinstance(m, AssistantMessage)]
    sent = [b for m in said for b in m.content if isinstance(b, ExtensionBlock)]
    assert [(b.provider, b.kind, b.data) for b in sent] == [(model.partition("/")[0], name, data)]


REFUSALS = {"Chat's": {"refusal": True}, "Responses'": {"item": {"refused": True}}}


async def refused(client: str, notes: Any, stream: bool) -> Answer:
    text = [swink.TextStart(0), swink.TextDelta(0, "No"), swink.TextDelta(0, ".")]
    end = [swink.TextEnd(0, metadata=notes), swink.Done(swink.StopReason.CONTENT_FILTER)]
    upstream = Scripted([swink.Start(), swink.Notice("refusal", "No."), *text, *end])
    path, body = ASKS[client]
    async with serving(upstream, providers=OWN) as gateway:
        return await ask(gateway, path, {"model": OPENAI, "stream": stream, **body})


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("notes", REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_has_its_field_in_chat(notes: Any, stream: bool) -> None:
    answer = await refused("chat", notes, stream)
    frames = answer.frames[:-1] if stream else [answer.json]
    choices = [choice for frame in frames for choice in frame["choices"]]
    said = [choice.get("delta", choice.get("message")) for choice in choices]
    assert "".join(each.get("refusal") or "" for each in said) == "No."
    assert not any(each.get("content") for each in said)
    assert choices[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("notes", REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_is_a_part_of_its_own_in_responses(notes: Any, stream: bool) -> None:
    answer = await refused("responses", notes, stream)
    response = answer.frames[-1]["response"] if stream else answer.json
    part = {"type": "refusal", "refusal": "No."}
    assert next(i["content"] for i in response["output"] if i["type"] == "message") == [part]
    if not stream:
        return
    events = [f for f in answer.frames if "refusal" in f["type"] or "text" in f["type"]]
    assert [(e["type"], e.get("delta", e.get("refusal"))) for e in events] == [
        ("response.refusal.delta", "No"),
        ("response.refusal.delta", "."),
        ("response.refusal.done", "No."),
    ]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_that_only_ends_the_answer_keeps_its_finish_reason(stream: bool) -> None:
    text = [swink.TextStart(0), swink.TextDelta(0, "No."), swink.TextEnd(0)]
    end = [swink.Notice("refusal", "bio"), swink.Done(swink.StopReason.CONTENT_FILTER)]
    path, body = ASKS["chat"]
    async with serving(Scripted([swink.Start(), *text, *end]), providers=OWN) as gateway:
        answer = await ask(gateway, path, {"model": OPENAI, "stream": stream, **body})
    frame = answer.frames[-2] if stream else answer.json
    assert frame["choices"][0]["finish_reason"] == "content_filter"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("client", ["messages", "responses"])
async def test_opaque_data_after_the_last_word_is_no_empty_text(client: str, stream: bool) -> None:
    words = [swink.TextStart(0), swink.TextDelta(0, "So."), swink.TextEnd(0)]
    opaque = [swink.TextStart(1)], [swink.TextEnd(1, metadata={"thoughtSignature": "s"})]
    upstream = Scripted([swink.Start(), *words], *opaque, [swink.Done(swink.StopReason.STOP)])
    path, body = {
        "messages": ("/v1/messages", {"max_tokens": 9, "messages": [HI]}),
        "responses": ("/v1/responses", {"input": "Hi"}),
    }[client]
    async with serving(upstream, providers=OWN) as gateway:
        answer = await ask(gateway, path, {"model": GEMINI, "stream": stream, **body})
    if client == "responses":
        response = answer.frames[-1]["response"] if stream else answer.json
        blocks = [item for item in response["output"] if item["type"] == "message"]
    elif stream:
        blocks = [f["content_block"] for f in answer.frames if "content_block" in f]
    else:
        blocks = answer.json["content"]
    assert [block["type"] for block in blocks] == ["message" if client == "responses" else "text"]
