"""The fields of each client protocol that `carried` follows to the vendors."""

from __future__ import annotations

from typing import Any

__all__ = ["PROTOCOLS", "Fields"]

Fields = dict[str, dict[str, Any]]

HI: dict[str, Any] = {"role": "user", "content": "Hi"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Weather.", "parameters": PARAMETERS}
FUNCTIONS = [{"type": "function", "function": FUNCTION}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOL = {"name": "get_weather", "description": "Weather.", "input_schema": PARAMETERS}
PDF = "JVBERi0xLjQKdHJhaWxlcjw8Pj4KJSVFT0Y="
DOCUMENT = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
    "title": "Report",
    "context": "Written in May.",
    "citations": {"enabled": True},
}
TEXT_DOCUMENT = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "The sky is blue."},
}

CHAT: Fields = {
    "temperature": {"temperature": 0.3},
    "top_p": {"top_p": 0.4},
    "max_tokens": {"max_tokens": 77},
    "stop": {"stop": ["XX"]},
    "n": {"n": 2},
    "seed": {"seed": 5},
    "logprobs": {"logprobs": True, "top_logprobs": 3},
    "logit_bias": {"logit_bias": {"50256": -100}},
    "presence_penalty": {"presence_penalty": 0.5},
    "user": {"user": "u1"},
    "prompt_cache_key": {"prompt_cache_key": "k1"},
    "service_tier": {"service_tier": "flex"},
    "store": {"store": True},
    "metadata": {"metadata": {"a": "b"}},
    "prediction": {"prediction": {"type": "content", "content": "Hello"}},
    "reasoning_effort": {"reasoning_effort": "high"},
    "verbosity": {"verbosity": "low"},
    "web_search_options": {"web_search_options": {}},
    "json_object": {"response_format": {"type": "json_object"}},
    "json_schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "strict": True, "schema": SCHEMA},
        }
    },
    "tools": {"tools": FUNCTIONS},
    "tool_choice required": {"tools": FUNCTIONS, "tool_choice": "required"},
    "parallel_tool_calls": {"tools": FUNCTIONS, "parallel_tool_calls": False},
    "custom tool": {"tools": [{"type": "custom", "custom": {"name": "py", "description": "d"}}]},
    "name of a user": {"messages": [{**HI, "name": "bob"}]},
    "refusal in history": {
        "messages": [HI, {"role": "assistant", "content": None, "refusal": "I refuse."}, HI]
    },
    "prefill": {"messages": [HI, {"role": "assistant", "content": "Once"}]},
    "cache_control": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}],
            }
        ]
    },
    "unknown field": {"a_field_of_tomorrow": 1},
}

MESSAGES: Fields = {
    "temperature": {"temperature": 0.3},
    "top_k": {"top_k": 6},
    "stop_sequences": {"stop_sequences": ["XX"]},
    "cached system": {
        "system": [
            {
                "type": "text",
                "text": "Rules.",
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ]
    },
    "metadata.user_id": {"metadata": {"user_id": "u1"}},
    "service_tier": {"service_tier": "standard_only"},
    "thinking": {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 9000},
    "output_config.format": {
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}
    },
    "container": {"container": "container_1"},
    "context_management": {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
    "tools": {"tools": [TOOL]},
    "tool strict": {"tools": [{**TOOL, "strict": True}]},
    "tool_choice any": {"tools": [TOOL], "tool_choice": {"type": "any"}},
    "not parallel": {
        "tools": [TOOL],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    },
    "web search": {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]},
    "document": {
        "messages": [{"role": "user", "content": [DOCUMENT, {"type": "text", "text": "Hi"}]}]
    },
    "text document": {
        "messages": [{"role": "user", "content": [TEXT_DOCUMENT, {"type": "text", "text": "Hi"}]}]
    },
    "foreign thinking": {
        "messages": [
            HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "foreign"},
                    {"type": "text", "text": "Hello."},
                ],
            },
            HI,
        ]
    },
    "unknown field": {"a_field_of_tomorrow": 1},
}

RESPONSES_TOOL = {"type": "function", "strict": False, **FUNCTION}

RESPONSES: Fields = {
    "instructions": {"instructions": "Be brief."},
    "temperature": {"temperature": 0.3},
    "max_output_tokens": {"max_output_tokens": 77},
    "max_tool_calls": {"max_tool_calls": 2},
    "metadata": {"metadata": {"a": "b"}},
    "not parallel": {"tools": [RESPONSES_TOOL], "parallel_tool_calls": False},
    "reasoning": {"reasoning": {"effort": "high", "summary": "auto"}},
    "store": {"store": True},
    "truncation": {"truncation": "auto"},
    "service_tier": {"service_tier": "flex"},
    "user": {"user": "u1"},
    "safety_identifier": {"safety_identifier": "s1"},
    "prompt_cache_key": {"prompt_cache_key": "k1"},
    "top_logprobs": {"top_logprobs": 3, "include": ["message.output_text.logprobs"]},
    "include": {"include": ["web_search_call.action.sources"]},
    "background": {"background": True},
    "conversation": {"conversation": "conv_1"},
    "prompt": {"prompt": {"id": "pmpt_1"}},
    "previous_response_id": {"previous_response_id": "resp_unknown"},
    "context_management": {
        "context_management": [{"type": "compaction", "compact_threshold": 1000}]
    },
    "json_schema": {
        "text": {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": SCHEMA}}
    },
    "json_object": {"text": {"format": {"type": "json_object"}}},
    "verbosity": {"text": {"verbosity": "low"}},
    "tools": {"tools": [RESPONSES_TOOL]},
    "tool_choice required": {"tools": [RESPONSES_TOOL], "tool_choice": "required"},
    "web search": {"tools": [{"type": "web_search"}]},
    "file search": {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
    "custom tool": {"tools": [{"type": "custom", "name": "py", "description": "d"}]},
    "developer message": {
        "input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    },
    "file": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Hi"},
                    {
                        "type": "input_file",
                        "filename": "a.pdf",
                        "file_data": f"data:application/pdf;base64,{PDF}",
                    },
                ],
            }
        ]
    },
    "unknown field": {"a_field_of_tomorrow": 1},
}

DECLARATION = {"functionDeclarations": [FUNCTION]}


def _config(**fields: Any) -> dict[str, Any]:
    return {"generationConfig": fields}


def _mode(mode: str, **more: Any) -> dict[str, Any]:
    config = {"functionCallingConfig": {"mode": mode, **more}}
    return {"tools": [DECLARATION], "toolConfig": config}


GEMINI: Fields = {
    "systemInstruction": {"systemInstruction": {"parts": [{"text": "Be brief."}]}},
    "temperature": _config(temperature=0.3),
    "topK": _config(topK=6),
    "maxOutputTokens": _config(maxOutputTokens=77),
    "stopSequences": _config(stopSequences=["XX"]),
    "candidateCount": _config(candidateCount=2),
    "seed": _config(seed=5),
    "presencePenalty": _config(presencePenalty=0.5),
    "logprobs": _config(responseLogprobs=True, logprobs=2),
    "responseSchema": _config(responseMimeType="application/json", responseJsonSchema=SCHEMA),
    "JSON without a schema": _config(responseMimeType="application/json"),
    "thinkingBudget": _config(thinkingConfig={"thinkingBudget": 1024, "includeThoughts": True}),
    "thinkingLevel": _config(thinkingConfig={"thinkingLevel": "low"}),
    "mediaResolution": _config(mediaResolution="MEDIA_RESOLUTION_LOW"),
    "responseModalities": _config(responseModalities=["TEXT", "IMAGE"]),
    "safetySettings": {
        "safetySettings": [{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}]
    },
    "cachedContent": {"cachedContent": "cachedContents/x"},
    "labels": {"labels": {"a": "b"}},
    "tools": {"tools": [DECLARATION]},
    "mode ANY": _mode("ANY"),
    "mode NONE": _mode("NONE"),
    "allowed functions": _mode("ANY", allowedFunctionNames=["get_weather"]),
    "googleSearch": {"tools": [{"googleSearch": {}}]},
    "urlContext": {"tools": [{"urlContext": {}}]},
    "codeExecution": {"tools": [{"codeExecution": {}}]},
    "inline document": {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Hi"},
                    {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
                ],
            }
        ]
    },
    "unknown field": {"aFieldOfTomorrow": 1},
}

OLLAMA: Fields = {
    "temperature": {"options": {"temperature": 0.3}},
    "num_predict": {"options": {"num_predict": 77}},
    "num_ctx": {"options": {"num_ctx": 4096}},
    "stop": {"options": {"stop": ["XX"]}},
    "seed": {"options": {"seed": 5}},
    "top_k": {"options": {"top_k": 6}},
    "min_p": {"options": {"min_p": 0.1}},
    "repeat_penalty": {"options": {"repeat_penalty": 1.1}},
    "mirostat": {"options": {"mirostat": 1}},
    "format json": {"format": "json"},
    "format schema": {"format": SCHEMA},
    "keep_alive": {"keep_alive": "5m"},
    "think": {"think": True},
    "think high": {"think": "high"},
    "tools": {"tools": FUNCTIONS},
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "unknown field": {"a_field_of_tomorrow": 1},
}

PROTOCOLS: dict[str, tuple[str, dict[str, Any], Fields]] = {
    "chat": ("/v1/chat/completions", {"messages": [HI]}, CHAT),
    "messages": ("/v1/messages", {"messages": [HI], "max_tokens": 900}, MESSAGES),
    "responses": ("/v1/responses", {"input": "Hi"}, RESPONSES),
    "gemini": (
        "/v1beta/models/{model}:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        GEMINI,
    ),
    "ollama": ("/api/chat", {"messages": [HI], "stream": False}, OLLAMA),
}
"""The path, a plain body and the fields of each protocol."""
