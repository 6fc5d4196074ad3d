"""Play one call for each line of JSON on the standard input, and print the result as JSON.

Runs in an environment that has the clients and nothing of this checkout. A line names the client,
the base URL, the model and the task: `tools` or `object`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

KEY = os.environ["KEY"]
QUESTION = "How is the weather?"
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}

Result = dict[str, Any]
Play = Callable[[str, str, str], Result]
"""A call at a base URL, of a model, for a task."""


def look(city: str) -> str:
    """Weather of a city."""
    return f"21 degrees in {city}"


def load(name: str) -> Any:
    """Import a module of a client."""
    return importlib.import_module(name)


def city_type() -> Any:
    """Return the type of a structured answer."""
    return load("pydantic").create_model("City", name=(str, ...), degrees=(float, ...))


def as_object(city: Any) -> Result:
    """Return the result of a structured answer."""
    return {"object": {"name": city.name, "degrees": city.degrees}}


# -- LangChain ---------------------------------------------------------------------------------


def langchain(make: Callable[[str, str, str], Any]) -> Play:
    """Return the calls of a chat model of LangChain."""

    def play(base: str, model: str, task: str) -> Result:
        chat = make(base, model, task)
        messages_module = load("langchain_core.messages")
        if task == "object":
            return as_object(chat.with_structured_output(city_type()).invoke("Name a city."))
        tool = load("langchain_core.tools").tool(look)
        bound = chat.bind_tools([tool])
        messages = [messages_module.HumanMessage(QUESTION)]
        answer = None
        for chunk in bound.stream(messages):
            answer = chunk if answer is None else answer + chunk
        assert answer is not None
        messages.append(answer)
        for call in answer.tool_calls:
            text = tool.invoke(call["args"])
            result = messages_module.ToolMessage(text, tool_call_id=call["id"], name=call["name"])
            messages.append(result)
        last = bound.invoke(messages)
        text = last.text if isinstance(last.text, str) else last.text()
        return {"text": text, "calls": len(answer.tool_calls)}

    return play


def langchain_openai(base: str, model: str, task: str, **more: Any) -> Any:
    """Make LangChain's chat model for OpenAI."""
    return load("langchain_openai").ChatOpenAI(
        model=model, base_url=f"{base}/v1", api_key=KEY, max_retries=0, **more
    )


def langchain_responses(base: str, model: str, task: str) -> Any:
    """Make LangChain's chat model for OpenAI's Responses."""
    return langchain_openai(base, model, task, use_responses_api=True)


def langchain_anthropic(base: str, model: str, task: str) -> Any:
    """Make LangChain's chat model for Anthropic, which thinks when it may call tools."""
    thinking = {"type": "enabled", "budget_tokens": 2000} if task == "tools" else None
    return load("langchain_anthropic").ChatAnthropic(
        model=model, base_url=base, api_key=KEY, max_retries=0, max_tokens=9000, thinking=thinking
    )


def langchain_google(base: str, model: str, task: str) -> Any:
    """Make LangChain's chat model for Google."""
    return load("langchain_google_genai").ChatGoogleGenerativeAI(
        model=model, base_url=base, google_api_key=KEY, max_retries=1, include_thoughts=True
    )


# -- Pydantic AI -------------------------------------------------------------------------------


def pydantic_ai(models: str, kind: str, provider: str, path: str) -> Play:
    """Return the calls of a model of Pydantic AI."""

    def play(base: str, model: str, task: str) -> Result:
        name = f"pydantic_ai.providers.{models}"
        own = getattr(load(name), provider)(base_url=base + path, api_key=KEY)
        chat = getattr(load(f"pydantic_ai.models.{models}"), kind)(model, provider=own)
        agent_type = load("pydantic_ai").Agent
        if task == "object":
            agent = agent_type(chat, output_type=city_type(), retries=0)
            return as_object(agent.run_sync("Name a city.").output)
        calls = 0

        def counted(city: str) -> str:
            nonlocal calls
            calls += 1
            return look(city)

        tool = load("pydantic_ai").Tool(counted, name="look", description="Weather of a city.")
        answer = agent_type(chat, tools=[tool], retries=0).run_sync(QUESTION)
        return {"text": answer.output, "calls": calls}

    return play


# -- others ------------------------------------------------------------------------------------


def instructor_openai(base: str, model: str, task: str) -> Result:
    """Ask for an object with instructor, by OpenAI's SDK."""
    client = load("openai").OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)
    answer = (
        load("instructor")
        .from_openai(client)
        .chat.completions.create(
            model=model,
            response_model=city_type(),
            messages=[{"role": "user", "content": "Name a city."}],
            max_retries=0,
        )
    )
    return as_object(answer)


def instructor_anthropic(base: str, model: str, task: str) -> Result:
    """Ask for an object with instructor, by Anthropic's SDK."""
    client = load("anthropic").Anthropic(base_url=base, api_key=KEY, max_retries=0)
    answer = (
        load("instructor")
        .from_anthropic(client)
        .messages.create(
            model=model,
            max_tokens=900,
            response_model=city_type(),
            messages=[{"role": "user", "content": "Name a city."}],
            max_retries=0,
        )
    )
    return as_object(answer)


def litellm(prefix: str, path: str) -> Play:
    """Return the calls of litellm by a provider."""

    def play(base: str, model: str, task: str) -> Result:
        module = load("litellm")
        module.suppress_debug_info = True
        settings = {"model": prefix + model, "api_base": base + path, "api_key": KEY}
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        chunks = list(module.completion(messages=messages, tools=[LOOK], stream=True, **settings))
        first = module.stream_chunk_builder(chunks, messages=messages).choices[0].message
        messages.append(first)
        calls = first.tool_calls or []
        for call in calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "21 degrees"})
        last = module.completion(messages=messages, tools=[LOOK], **settings)
        return {"text": last.choices[0].message.content, "calls": len(calls)}

    return play


def ollama(base: str, model: str, task: str) -> Result:
    """Ask with Ollama's SDK."""
    client = load("ollama").Client(host=base)
    if task == "object":
        asked = [{"role": "user", "content": "Name a city."}]
        type_ = city_type()
        answer = client.chat(model=model, messages=asked, format=type_.model_json_schema())
        return as_object(type_.model_validate_json(answer.message.content))
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    chunks = list(client.chat(model=model, messages=messages, tools=[look], stream=True))
    calls = [call for chunk in chunks for call in chunk.message.tool_calls or []]
    functions = [
        {"function": {"name": call.function.name, "arguments": call.function.arguments}}
        for call in calls
    ]
    messages.append({"role": "assistant", "content": "", "tool_calls": functions})
    for _ in calls:
        messages.append({"role": "tool", "tool_name": "look", "content": "21 degrees"})
    last = client.chat(model=model, messages=messages, tools=[look])
    return {"text": last.message.content, "calls": len(calls)}


CLIENTS: dict[str, Play] = {
    "LangChain, OpenAI Chat": langchain(langchain_openai),
    "LangChain, OpenAI Responses": langchain(langchain_responses),
    "LangChain, Anthropic": langchain(langchain_anthropic),
    "LangChain, Google": langchain(langchain_google),
    "Pydantic AI, Chat": pydantic_ai("openai", "OpenAIChatModel", "OpenAIProvider", "/v1"),
    "Pydantic AI, Responses": pydantic_ai(
        "openai", "OpenAIResponsesModel", "OpenAIProvider", "/v1"
    ),
    "Pydantic AI, Anthropic": pydantic_ai("anthropic", "AnthropicModel", "AnthropicProvider", ""),
    "Pydantic AI, Google": pydantic_ai("google", "GoogleModel", "GoogleProvider", ""),
    "instructor, OpenAI": instructor_openai,
    "instructor, Anthropic": instructor_anthropic,
    "litellm, OpenAI": litellm("openai/", "/v1"),
    "litellm, Anthropic": litellm("anthropic/", ""),
    "litellm, Ollama": litellm("ollama_chat/", ""),
    "ollama": ollama,
}


def main() -> None:
    """Play what is read, until the input ends."""
    warnings.simplefilter("ignore")
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            result = CLIENTS[asked["client"]](asked["base"], asked["model"], asked["task"])
            result["errors"] = []
        except Exception as error:
            result = {"errors": [f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"]}
        print(json.dumps(result, default=str), file=results, flush=True)


if __name__ == "__main__":
    main()
