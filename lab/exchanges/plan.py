"""Plans: everything that an exchange is to be, drawn from a seed and its number."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

from lab.exchanges import words
from lab.exchanges.talk import Call, Entry, Result, Said, User
from lab.exchanges.targets import Target, drawn
from lab.vendor import Fault

__all__ = ["GATEWAY", "KINDS", "PROTOCOLS", "Conversation", "Options", "Plan", "plan_of"]

PROTOCOLS = ("chat", "responses", "messages", "gemini", "ollama")
GATEWAY = (*PROTOCOLS, "proxy", "budget", "kill")
KINDS: dict[str, float] = {
    "stream": 18,
    "complete": 14,
    "run": 8,
    "gather": 4,
    "answer": 4,
    "chat": 11,
    "responses": 10,
    "messages": 11,
    "gemini": 10,
    "ollama": 8,
    "proxy": 6,
    "budget": 4,
    "kill": 0.5,
}
"""The kinds of exchanges, and how often each is drawn."""

_FAULTS = (
    "rate_limit", "overload", "server", "auth", "quota", "overflow", "filter", "cut", "reset",
    "empty", "damaged", "garbage", "content_type", "silence", "status",
)  # fmt: skip
_STATUSES = (400, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of all requests of a conversation; `None` for what is not set."""

    system: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    choice: str | None = None
    schema: dict[str, Any] | None = None
    thinking: str | None = None
    tier: str | None = None
    choices: int = 1


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of a tenant.

    `prompts` are the user's messages of the turns that are really taken, `live` in number, after
    `history`. The `fault` meets the request of the live turn `fault_at`, the caller leaves that of
    `leave_at` after `leave_after` events. `retries` is how often a failed attempt is repeated.
    """

    tenant: str
    target: Target
    options: Options
    history: tuple[Entry, ...]
    prompts: tuple[User, ...]
    live: int
    streamed: bool = True
    fault: Fault | None = None
    fault_at: int = 0
    leave_at: int | None = None
    leave_after: int = 0
    retries: int = 0

    @property
    def turns(self) -> int:
        """Return the number of the model's turns, in the history and live."""
        return self.live + sum(isinstance(each, Said) for each in self.history)


@dataclass(frozen=True, slots=True)
class Plan:
    """An exchange: its number, its kind and its conversations, which are held at the same time."""

    seed: int
    number: int
    kind: str
    conversations: tuple[Conversation, ...]
    notes: dict[str, Any] = field(default_factory=dict)


def plan_of(seed: int, number: int, only: str | None = None) -> Plan:
    """Draw a plan; `only` fixes its kind."""
    chance = random.Random(f"exchange {seed} {number}")
    kinds = sorted(KINDS)
    kind = chance.choices(kinds, [KINDS[each] for each in kinds])[0]
    kind = only or kind
    tenants = ["acme", "globex"] if chance.random() < 0.25 else ["acme"]
    notes: dict[str, Any] = {"protocol": kind}
    if kind in ("budget", "kill"):
        notes["protocol"] = chance.choice(PROTOCOLS)
        notes["budget"] = 10 ** chance.uniform(-5, -2) if kind == "budget" else 100
        notes["crowd"] = kind == "budget" and chance.random() < 0.5
        notes["after"] = chance.choice([0, 1, 2, 5, 12])
    made = tuple(_conversation(chance, kind, tenant) for tenant in tenants)
    return Plan(seed, number, kind, made, notes)


def _conversation(chance: random.Random, kind: str, tenant: str) -> Conversation:
    target = drawn(chance)
    while kind in ("budget", "kill") and target.provider == "ollama":
        target = drawn(chance)  # its models cost nothing
    options = _options(chance, kind, target)
    turns = _turns(chance)
    live = turns
    if turns > 3 and chance.random() < 0.93:
        live = chance.randint(1, 3)
    if kind in ("gather", "answer"):
        live = chance.randint(1, 3)
    if kind == "budget":
        live = chance.randint(3, 12)
    if kind == "kill":
        live = 2
    history = [] if kind == "gather" else _history(chance, turns - live)
    pictures = target.provider != "cohere" and chance.random() < 0.15
    prompts = tuple(_prompt(chance, options, pictures, kind) for _ in range(live))
    made = Conversation(
        tenant, target, options, tuple(history), prompts, live, streamed=chance.random() < 0.7
    )
    lot = chance.random()
    if kind in ("budget", "kill"):
        return replace(made, streamed=made.streamed or kind == "kill")
    if lot < 0.3:
        return _with_fault(chance, made, kind)
    if lot < 0.42 and kind in ("stream", "proxy", *PROTOCOLS):
        return _left(chance, made)
    return made


def _turns(chance: random.Random) -> int:
    lot = chance.random()
    if lot < 0.5:
        return 1
    if lot < 0.8:
        return chance.randint(2, 5)
    if lot < 0.95:
        return chance.randint(6, 30)
    return chance.randint(31, 300)


def _options(chance: random.Random, kind: str, target: Target) -> Options:
    wants_tools = kind == "run" or (kind != "answer" and chance.random() < 0.4)
    tools = tuple(words.tools(chance)) if wants_tools else ()
    choice = None
    if tools and chance.random() < 0.4:
        choice = chance.choice(["auto", "none", "required", chance.choice(tools)])
    schema = None
    if not tools and kind != "answer" and chance.random() < 0.12:
        schema = words.schema(chance)
    thinking = chance.choice(["off", "low", "medium", "high"]) if chance.random() < 0.3 else None
    if target.model.startswith("gpt-4"):
        thinking = None  # these models do not reason, and OpenAI refuses to be asked for it
    return Options(
        system=words.sentence(chance) if chance.random() < 0.4 else None,
        max_tokens=chance.choice([1, 7, 20, 64, 300, 3000]) if chance.random() < 0.35 else None,
        temperature=chance.choice([0.0, 0.3, 1.0]) if chance.random() < 0.2 else None,
        top_p=chance.choice([0.5, 0.95]) if chance.random() < 0.1 else None,
        stop=_stops(chance) if chance.random() < 0.12 else (),
        tools=tools,
        choice=choice,
        schema=schema,
        thinking=thinking,
        choices=_choices(chance, kind, target),
        tier=chance.choice(target.tiers) if target.tiers and chance.random() < 0.15 else None,
    )


def _choices(chance: random.Random, kind: str, target: Target) -> int:
    """Return the number of answers to request. Gemini 3 refuses requests for several answers."""
    wanted = kind in ("chat", "gemini") and chance.random() < 0.04
    return 2 if wanted and not target.model.startswith("gemini-3") else 1


def _stops(chance: random.Random) -> tuple[str, ...]:
    return tuple(chance.sample(["harbour", "bells", "count", "です", "🌊"], chance.randint(1, 2)))


def _prompt(chance: random.Random, options: Options, pictures: bool, kind: str) -> User:
    texts = [words.sentence(chance)]
    free = options.schema is None and options.choice is None and kind != "answer"
    if chance.random() < 0.3 and free:
        texts[0] += f" [[vendor {_script(chance, options)}]]"
    images = tuple(words.image(chance) for _ in range(chance.randint(1, 2))) if pictures else ()
    return User(tuple(texts), images)


def _script(chance: random.Random, options: Options) -> str:
    """Return a script for one turn of the vendor's, as JSON."""
    parts: list[dict[str, Any]] = []
    if chance.random() < 0.7 or not options.tools:
        parts.append({"text": words.sentence(chance, 120)})
    if options.tools:
        for _ in range(chance.randint(0, 3)):
            name = chance.choice(options.tools)
            parts.append({"call": name, "arguments": words.arguments(chance, name)})
    if not parts:
        parts.append({"tokens": chance.randint(1, 300)})
    return json.dumps({"parts": parts}, ensure_ascii=chance.random() < 0.2)


def _history(chance: random.Random, turns: int) -> list[Entry]:
    """Return a conversation in which the model spoke `turns` times; it ends with its answer."""
    made: list[Entry] = []
    left = turns
    while left > 0:
        pictures = (words.image(chance),) if chance.random() < 0.02 else ()
        made.append(User((words.sentence(chance),), pictures if turns < 20 else ()))
        while left > 1 and chance.random() < 0.3:
            calls = []
            for _ in range(chance.randint(1, 2)):
                name = chance.choice(sorted(words.TOOLS))
                id = "".join(chance.choices("abcdefghijkmnpqrstuvwxyzABCDEFGH23456789", k=9))
                calls.append(Call(id, name, words.arguments(chance, name)))
            text = words.sentence(chance, 8) if chance.random() < 0.3 else ""
            made.append(Said(text, tuple(calls)))
            made += [result_of(chance, call) for call in calls]
            left -= 1
        made.append(Said(words.sentence(chance)))
        left -= 1
    return made


def result_of(chance: random.Random, call: Call) -> Result:
    """Return a result for a call."""
    is_error = chance.random() < 0.1
    return Result(call.id, call.name, words.sentence(chance, 30), is_error)


def _with_fault(chance: random.Random, made: Conversation, kind: str) -> Conversation:
    name: Any = chance.choice(_FAULTS)
    after: Any = None
    lot = chance.random()
    if lot > 0.9:
        after = "end"
    elif lot > 0.45:
        after = chance.choice([0, 1, 3, 10, 25])
    if name == "filter" and made.target.api in ("cohere", "ollama"):
        after = None  # these APIs have no word for a filtered answer
    status = chance.choice(_STATUSES) if name == "status" else None
    retry_after = chance.choice([None, 0.01, 0.0]) if name in ("rate_limit", "overload") else None
    times = 1
    retries = chance.choice([0, 0, 1, 2])
    if retries and chance.random() < 0.3:
        times = 5
    fault = Fault(name, after=after, status=status, retry_after=retry_after, times=times)
    return replace(made, fault=fault, fault_at=chance.randrange(made.live), retries=retries)


def _left(chance: random.Random, made: Conversation) -> Conversation:
    after = chance.choice([0, 1, 2, 5, 9, 30])
    return replace(made, streamed=True, leave_at=chance.randrange(made.live), leave_after=after)
