"""The scenes that clients play: what the simulated vendor answers, or how it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lab.vendor import Fault, Vendor
from lab.vendor.ask import Ask
from lab.vendor.writer import Script

__all__ = ["ANSWER", "FAILURES", "SCENES", "SDK_SCENES", "Scene", "Tool", "vendor_of"]

ANSWER = "CANNED-ANSWER-42: all is well."

ALWAYS = 10_000
"""Requests that a fault holds for: all that a client makes."""

Tool = tuple[str, dict[str, Any]]
"""A tool's name and the arguments of a call."""


@dataclass(frozen=True)
class Scene:
    """A scene: the vendor's answer, or its failure in each request.

    `fault` is the vendor's; `knows_key` is false where the vendor and the gateway refuse the
    client's key, and `has_words` where an answer is complete and empty.
    """

    about: str
    kind: Literal["answer", "tool", "pause", "failure"] = "failure"
    fault: Fault | None = None
    knows_key: bool = True
    has_words: bool = True

    def key_for(self, key: str) -> str:
        """Return the key that vendor and gateway accept from a client with `key`."""
        return key if self.knows_key else "another-key"


ANSWERS = {
    "answer": Scene("an answer", "answer"),
    "tool": Scene("reasoning and two calls of the shell tool, then an answer", "tool"),
    "pause": Scene(
        "an answer with long pauses, in which the gateway sends keep-alive messages", "pause"
    ),
}

FAILURES = {
    "429": Scene("429 without `Retry-After`", fault=Fault("rate_limit", times=ALWAYS)),
    "429-after": Scene(
        "429 with `Retry-After: 1`", fault=Fault("rate_limit", retry_after=1, times=ALWAYS)
    ),
    "503": Scene(
        "503 with `Retry-After: 1`", fault=Fault("status", status=503, retry_after=1, times=ALWAYS)
    ),
    "overflow": Scene(
        "an error: the context window is exceeded", fault=Fault("overflow", times=ALWAYS)
    ),
    "key": Scene("an error: the client's API key is rejected", knows_key=False),
    "filter": Scene(
        "an error: the content filter rejects the prompt", fault=Fault("filter", times=ALWAYS)
    ),
    "retired": Scene(
        "404: the model is retired",
        fault=Fault("status", status=404, code="model_not_found", times=ALWAYS),
    ),
    "cut-before": Scene(
        "the response headers, then the connection breaks", fault=Fault("cut", 0, times=ALWAYS)
    ),
    "cut": Scene("some words, then the connection breaks", fault=Fault("cut", 3, times=ALWAYS)),
    "error": Scene(
        "some words, then an error event of the API", fault=Fault("server", 3, times=ALWAYS)
    ),
    "empty": Scene("a complete answer without text", has_words=False),
}

SCENES = {**ANSWERS, **FAILURES}
"""The scenes of agents, in the order of the table."""

SDK_SCENES = {
    "overloaded": Scene("the API's error for overload", fault=Fault("overload", times=ALWAYS)),
    "silence": Scene(
        "nothing; the client has a time limit of 2 s", fault=Fault("silence", times=ALWAYS)
    ),
}
"""The scenes that SDKs play beside `FAILURES`: agents wait longer than anybody does here."""


def vendor_of(scene: Scene, key: str, tool: Tool | None) -> Vendor:
    """Return the vendor of a scene, which is not started. It refuses `key` where the scene does.

    The first request that offers `tool` is answered with calls of it in the scene `tool`.
    """
    is_slow = scene.kind == "pause"
    vendor = Vendor(
        {"clients": [scene.key_for(key)]},
        first_token=1.5 if is_slow else 0.0,
        tokens_per_second=3.0 if is_slow else None,
    )
    if scene.fault is not None:
        vendor.state.faults.add(scene.fault)
    called = False

    def play(ask: Ask) -> Script:
        nonlocal called
        is_prewarm = ask.own.get("prewarm", False)
        if scene.kind == "tool" and tool is not None and not called and not is_prewarm:
            name, arguments = tool
            if any(offered.name == name for offered in ask.tools):
                called = True
                call = {"call": name, "arguments": arguments}
                thought = [{"thought": "Hm."}] if ask.thinking else []
                return Script(((*thought, *[call] * (2 if ask.parallel else 1)),))
        return Script((({"text": ANSWER},) if scene.has_words else (),))

    vendor.state.play = play
    return vendor
