"""Convert requests of Anthropic's Messages to conversations and options.

https://platform.claude.com/docs/en/api/messages/create. A turn is a list of blocks; tool results
are blocks of the user's turn. Instructions come before the conversation or, as turns of the role
`system`, inside it. A `cache_control` field anywhere enables caching. Anthropic gets these cache
marks where the client placed them; for other providers, the option `cache` stands for them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from swink_core import (
    AssistantMessage,
    Base64Source,
    Block,
    CacheStrategy,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    replace,
)
from swink_core.providers import Source
from swink_gateway.protocols import Asked, BadRequest
from swink_gateway.protocols.fields import Fields
from swink_gateway.protocols.frames import encode
from swink_gateway.protocols.media import source_of
from swink_gateway.protocols.options import EFFORTS, HIGHEST, MARK
from swink_gateway.protocols.sealing import Sealed, opened, unsealed, with_sealed

__all__ = ["WIRE_FORMAT", "read_messages"]

WIRE_FORMAT = "anthropic-messages"

BETA = "anthropic-beta"
"""The header that requests beta features."""

HOUR = 3600

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_messages(body: Any, headers: Mapping[str, str]) -> Asked:
    """Parse a request. Raises BadRequest if it is invalid."""
    return _Reader(Fields(body)).read(headers)


class _Reader:
    """Reader of one request. `_names` maps the ids of calls to the names of tools."""

    def __init__(self, said: Fields) -> None:
        self._said = said
        self._names: dict[str, str] = {}
        self._own_tools: list[dict[str, Any]] = []
        self._own_output: dict[str, Any] = {}
        self._own_thinking: dict[str, Any] = {}
        self._exact_thinking: dict[str, Any] = {}
        self._marked = False
        self._is_mark_lost = False
        self._thoughts = False
        self._ttl: int | None = None

    def read(self, headers: Mapping[str, str]) -> Asked:
        said = self._said
        prompt = self._system()
        context = Context([], [*prompt] if isinstance(prompt, list) else prompt)
        context.tools = [tool for one in said.objects("tools") if (tool := self._tool(one))]
        for turn in said.objects("messages"):
            context.messages += self._turn(turn)
        asked = Asked(said.required("model"), context, self._options())
        asked.stream = bool(said.flag("stream"))
        automatic = self._mark(said)
        if self._marked:
            cache = CacheStrategy(ttl=self._ttl)
            asked.options["cache"] = cache
            asked.own_options["cache"] = cache if self._is_mark_lost else None
        elif isinstance(prompt, list):
            context.system_prompt = "\n\n".join(block.text for block in prompt) or None
        asked.own = {**said.rest(), **(automatic or {})}
        if self._own_tools:
            asked.own["tools"] = self._own_tools
        if self._own_thinking:
            asked.own["thinking"] = self._own_thinking
        if self._own_output:
            asked.own["output_config"] = self._own_output
        asked.exact_thinking = self._exact_thinking
        asked.said["thoughts"] = self._thoughts
        if betas := headers.get(BETA):
            asked.headers = {BETA: betas}
        asked.dropped = said.dropped
        return asked

    def _system(self) -> str | list[TextBlock] | None:
        said = self._said.data("system")
        if said is None or isinstance(said, str):
            return said
        return [self._text(block) for block in self._said.objects("system")] or None

    def _options(self) -> dict[str, Any]:
        said = self._said
        options: dict[str, Any] = {
            "max_tokens": self._most(),
            "temperature": said.number("temperature"),
            "top_p": said.number("top_p"),
            "top_k": said.whole_number("top_k"),
            "stop": tuple(said.take("stop_sequences", list) or ()) or None,
        }
        if (about := said.object("metadata")) is not None:
            options["user"] = about.text("user_id")
        options |= self._thinking()
        if (choice := said.object("tool_choice")) is not None:
            kind = choice.required("type")
            options["tool_choice"] = (
                choice.required("name") if kind == "tool" else _CHOICES.get(kind)
            )
            if (alone := choice.flag("disable_parallel_tool_use")) is not None:
                options["parallel_tool_calls"] = not alone
        return {name: value for name, value in options.items() if value is not None}

    def _most(self) -> int | None:
        """Return the token limit. A `max_tokens` of 0, which only fills the cache, counts as 1."""
        most = self._said.whole_number("max_tokens")
        if most == 0:
            self._said.drop("max_tokens", "0")
            return 1
        return most

    def _thinking(self) -> dict[str, Any]:
        """Return the thinking options; the API's default effort is high.

        An effort beside thinking that is off or has a budget is kept for Anthropic. For an effort
        without an equal level of swink, such as `max`, the option is another level, and the effort
        itself is kept for models with efforts.
        """
        effort: str | None = None
        is_in_option = False
        options: dict[str, Any] = {}
        if (output := self._said.object("output_config")) is not None:
            effort = output.text("effort")
            if (form := output.object("format")) is not None:
                form.text("type")
                options["response_format"] = form.take("schema", dict)
            self._own_output = output.rest()
        if (thinking := self._said.object("thinking")) is not None:
            self._thoughts = thinking.text("display") != "omitted"
            tokens = thinking.whole_number("budget_tokens")
            match thinking.required("type"):
                case "disabled":
                    self._thoughts = False
                    options["thinking"] = "off"
                case "between_tools":  # the least that the model accepts
                    options["thinking"] = "off"
                case "enabled" if tokens:
                    options["thinking"] = tokens
                case "adaptive" | "enabled":
                    options["thinking"] = EFFORTS.get(effort or "", "high")
                    is_in_option = True
                    if effort is not None and (effort not in EFFORTS or effort == HIGHEST):
                        self._exact_thinking = {"output_config": {"effort": effort}}
                case kind:
                    thinking.drop("type", kind)
            self._own_thinking = thinking.rest()
        if effort is not None and not is_in_option:
            self._own_output = {"effort": effort, **self._own_output}
        return options

    def _tool(self, said: Fields) -> Tool | None:
        kind = said.text("type")
        mark = self._mark(said)
        if kind not in (None, "custom"):
            self._own_tools.append(said.all())
            return None
        tool = Tool(said.required("name"), said.text("description") or "")
        tool.parameters = said.take("input_schema", dict) or tool.parameters
        tool.strict = said.flag("strict")
        if own := {**said.rest(), **(mark or {})}:
            tool.metadata = {WIRE_FORMAT: own}
        return tool

    # -- turns -------------------------------------------------------------------------------------

    def _turn(self, said: Fields) -> Iterator[Message]:
        role = said.required("role")
        content: Any = said.take("content", (str, list))
        match role:
            case "assistant":
                yield self._answer(said, content)
            case "user" if isinstance(content, list):
                yield from self._said_by_user(said)
            case "user":
                yield UserMessage(content or "")
            case "system" if isinstance(content, list):
                yield SystemMessage([self._text(block) for block in said.objects("content")])
            case "system":
                yield SystemMessage(content or "")
            case _:
                raise BadRequest(f"{said.place('role')} is {role!r}, an unknown role")

    def _said_by_user(self, said: Fields) -> Iterator[Message]:
        blocks: list[Block] = []
        for block in said.objects("content"):
            if block.data("type") != "tool_result":
                blocks.append(self._block(block))
                continue
            if blocks:
                yield UserMessage(blocks)
                blocks = []
            yield self._result(block)
        if blocks:
            yield UserMessage(blocks)

    def _result(self, said: Fields) -> ToolResultMessage:
        id, content = said.required("tool_use_id"), said.take("content", (str, list))
        mark = self._mark(said)
        given: Any = content or ""
        if isinstance(content, list):
            given = [self._block(block) for block in said.objects("content")]
        if mark:
            blocks = [TextBlock(given)] if isinstance(given, str) else given
            at = next((n for n in reversed(range(len(blocks))) if not _is_blank(blocks[n])), None)
            if at is None:
                self._is_mark_lost = True
            else:
                given = [*blocks[:at], _with_mark(blocks[at], mark), *blocks[at + 1 :]]
        failed = bool(said.flag("is_error"))
        return ToolResultMessage(id, self._names.get(id, ""), given, failed)

    def _block(self, said: Fields) -> Block:
        match said.data("type"):
            case "text":
                return self._text(said)
            case "image" if (source := said.object("source")) is not None:
                said.text("type")
                return ImageBlock(self._source(source), self._mark(said))
            case "document" if (source := said.object("source")) is not None:
                said.text("type")
                return self._document(said, source)
        return ExtensionBlock(WIRE_FORMAT, str(said.data("type")), said.all())

    def _text(self, said: Fields) -> TextBlock:
        said.text("type")
        metadata = self._mark(said) or {}
        if own := [c for c in said.take("citations", list) or () if _sealed_in(c) is None]:
            metadata["citations"] = own
        return TextBlock(said.text("text") or "", metadata or None)

    def _document(self, said: Fields, source: Fields) -> Block:
        if source.data("type") == "content":
            source.all()
            return ExtensionBlock(WIRE_FORMAT, "document", said.all())
        metadata = self._mark(said) or {}
        metadata |= {n: v for n in ("context", "citations") if (v := said.data(n)) is not None}
        return DocumentBlock(self._source(source), said.text("title"), metadata or None)

    def _source(self, said: Fields) -> Source:
        match said.required("type"):
            case "base64":
                return Base64Source(said.required("media_type"), said.text("data") or "")
            case "text":
                text = (said.text("data") or "").encode("utf-8", "surrogatepass")
                kind = said.text("media_type") or "text/plain"
                kind = kind.partition(";")[0]  # a charset does not apply to JSON
                return Base64Source(kind, b64encode(text).decode())
            case "url":
                return source_of(said.required("url"), said.place("url"))
            case "file":
                return FileIdSource(WIRE_FORMAT, said.required("file_id"))
            case other:
                raise BadRequest(f"{said.place('type')} is {other!r}, an unknown source type")

    def _mark(self, said: Fields) -> dict[str, Any] | None:
        """Return the field `cache_control` as metadata, and enable caching."""
        mark = said.take(MARK, dict)
        if mark is None:
            return None
        self._marked = True
        if mark.get("ttl") == "1h":
            self._ttl = HOUR
        return {MARK: mark}

    # -- the model's messages ----------------------------------------------------------------------

    def _answer(self, said: Fields, content: str | list[Any] | None) -> AssistantMessage:
        if not isinstance(content, list):
            return AssistantMessage([TextBlock(content)] if content else [])
        answer = AssistantMessage([])
        beside: list[Sealed] = []
        for block in said.objects("content"):
            self._answered(block, answer, beside)
        with_sealed(answer.content, beside)
        if any(map(_is_own, answer.content)):
            answer.provider = answer.provider or WIRE_FORMAT
        return answer

    def _answered(self, said: Fields, answer: AssistantMessage, beside: list[Sealed]) -> None:
        kind = said.data("type")
        if kind == "text":
            answer.content.append(text := self._text(said))
            for held in filter(None, map(_sealed_in, said.data("citations") or ())):
                answer.provider = held.provider
                metadata = held.data.get("text")  # a client may have sealed any value
                text.metadata = metadata if isinstance(metadata, dict) else text.metadata
        elif kind == "tool_use":
            answer.content.append(self._call(said))
        elif kind in ("thinking", "redacted_thinking"):
            said.text("type")
            self._mark(said)
            thought, opaque = said.text("thinking") or "", said.text("signature") or None
            opaque = said.text("data") or opaque
            if (sealed := unsealed(opaque)) is not None:
                _open(sealed, thought, answer, beside)
            elif thought or opaque:
                answer.provider = answer.provider or (WIRE_FORMAT if opaque else None)
                hidden = kind == "redacted_thinking"
                answer.content.append(ThinkingBlock(thought, opaque, hidden))
        else:
            answer.provider = WIRE_FORMAT
            answer.content.append(ExtensionBlock(WIRE_FORMAT, str(kind), said.all()))

    def _call(self, said: Fields) -> ToolCallBlock:
        said.text("type")
        id, name = said.required("id"), said.required("name")
        self._names[id] = name
        self._is_mark_lost |= self._mark(said) is not None  # metadata must be valid for all
        given = said.take("input", dict) or {}
        call = ToolCallBlock(id, name, given, encode(given).decode())
        call.metadata = said.rest() or None
        return call


def _open(sealed: Sealed, thought: str, answer: AssistantMessage, beside: list[Sealed]) -> None:
    """Put sealed data back into an answer: thinking, a block, or a tool call's metadata."""
    answer.provider = sealed.provider
    held = sealed.data
    if "of" in held:
        if held.get("wordless"):
            answer.content.append(TextBlock(""))
        beside.append(sealed)
        return
    block: Block | None
    if "block" in held:
        block = opened(ExtensionBlock, held["block"])
    else:
        block = opened(ThinkingBlock, {"type": "thinking", "thinking": thought, **held})
    answer.content += [block] if block is not None else []


def _sealed_in(citation: Any) -> Sealed | None:
    """Return another provider's data that the gateway encoded in a citation."""
    opaque = citation.get("encrypted_index") if isinstance(citation, dict) else None
    return unsealed(opaque) if isinstance(opaque, str) else None


def _is_blank(block: Block) -> bool:
    """Return True for text that Anthropic's API may refuse, and that is then not sent."""
    return isinstance(block, TextBlock) and not block.text.strip()


def _with_mark(block: Any, mark: dict[str, Any]) -> Block:
    """Return a block with a cache mark: in its data if it is sent unchanged, else as metadata."""
    name = "data" if isinstance(block, ExtensionBlock) else "metadata"
    marked: Block = replace(block, **{name: {**(getattr(block, name) or {}), **mark}})
    return marked


def _is_own(block: Block) -> bool:
    """Return True if a block contains data of this protocol's own provider."""
    metadata = getattr(block, "metadata", None) or {}
    return bool(metadata.keys() - {MARK})
