"""Parse answers of `generateContent`: convert frames to events.

An answer is a list of parts. Text, thoughts and function calls become events immediately. Every
other part (executed code and its output, generated media, calls of server-side tools, unknown
kinds) becomes an extension. A `thoughtSignature` must be sent back with the same part, so a part
with a signature becomes a separate block, even if its text is empty.

The answer is complete when a frame contains a finish reason. Older models send a finish reason in
every frame, so the parser reads to the end of the input and uses the last finish reason.

If a request asks for several answers (`candidateCount`), the first candidate is the message. Each
other candidate becomes an extension of the kind `choice` at the end, with the candidate as data.
The API sends several candidates only without streaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from swink_core import ExtensionBlock, Failure, StopReason
from swink_core.providers import EventWriter, text_field
from swink_provider_gemini.arguments import ArgumentText, OutOfOrder
from swink_provider_gemini.errors import BLOCKED_PROMPT, read_error
from swink_provider_gemini.usage import count_tokens
from swink_provider_gemini.wire import (
    Candidate,
    Chunk,
    FunctionCall,
    TextChunk,
    decode_chunk,
    decode_chunks,
    decode_text,
    function_call,
)

__all__ = ["ABOUT_TEXT", "CONTINUATION", "GenerateContentParser"]

STOP_REASONS = {
    "STOP": StopReason.STOP,
    "MAX_TOKENS": StopReason.LENGTH,
    "TOO_MANY_TOOL_CALLS": StopReason.LENGTH,  # of server-side tools
    "CONTINUATION": StopReason.PAUSE,
    "SAFETY": StopReason.CONTENT_FILTER,
    "RECITATION": StopReason.CONTENT_FILTER,
    "LANGUAGE": StopReason.CONTENT_FILTER,
    "BLOCKLIST": StopReason.CONTENT_FILTER,
    "PROHIBITED_CONTENT": StopReason.CONTENT_FILTER,
    "SPII": StopReason.CONTENT_FILTER,
    "MODEL_ARMOR": StopReason.CONTENT_FILTER,
    "ESCALATION": StopReason.CONTENT_FILTER,
    "IMAGE_SAFETY": StopReason.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": StopReason.CONTENT_FILTER,
    "IMAGE_RECITATION": StopReason.CONTENT_FILTER,
    "IMAGE_OTHER": StopReason.CONTENT_FILTER,
}
"""Maps the API's finish reasons to stop reasons.

Sources: https://ai.google.dev/api/generate-content#FinishReason and Vertex AI's names. Any other
finish reason (OTHER, NO_IMAGE, new ones) counts as a normal end, and a notice names it.
"""

PLAIN = frozenset({"STOP", "MAX_TOKENS", "SAFETY", "CONTINUATION"})
"""Finish reasons that a stop reason describes completely; metadata contain any other one."""

FAILURES = frozenset(
    {
        "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE", "PUP_LIMITED_DISABLED",
    }
)  # fmt: skip
"""Finish reasons of an unusable answer; the module `errors` maps them to kinds of failure."""

CONTINUATION = "continuationToken"
"""The kind of the extension with the token for a request that continues the answer."""

ABOUT_TEXT = ("citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult")
"""Fields of a candidate that become metadata of a text block and are never sent back."""

_BESIDE_CONTENT = frozenset(
    {
        "thought", "thoughtSignature", "partMetadata", "mediaResolution", "videoMetadata",
        "speechMetadata",
    }
)  # fmt: skip
"""Fields that describe a part; the name of any other field is the kind of the part."""

_BOM = b"\xef\xbb\xbf"


class GenerateContentParser:
    """Parses one response; `several` means that the request asks for several answers."""

    def __init__(self, several: bool = False) -> None:
        self._wants_all = several
        self._block = 0
        self._block_is_whole = False
        self._calls = 0
        self._pieces: ArgumentText | None = None
        self._word: str | None = None
        self._known: set[tuple[str, bytes]] = set()
        self._cited: dict[str, list[Any]] = {}  # citations of the block being written
        self._facts: dict[str, Any] = {}  # facts about the answer so far
        self._logprobs: dict[str, Any] = {}
        self._chars = 0  # the size, in characters, of log probabilities not written yet
        self._in_text = self._several = self._keeps_all = False
        self._says_only_text = False  # the last frame had only text; try the fast decoder first
        self._usage: dict[str, Any] = {}  # reported usage that is not counted yet

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`."""
        if self._says_only_text:
            try:
                text = decode_text(frame)
            except msgspec.DecodeError:  # not only text, or invalid: use the full decoder
                pass
            else:
                if self._add_text(text, out):
                    return
            self._says_only_text = False
        if not frame.startswith(b"["):
            self._chunk(decode_chunk(frame), frame, out)
            return
        for chunk in decode_chunks(frame):
            self._chunk(chunk, frame, out)
            if out.finished:
                break

    def after_read(self, out: EventWriter) -> None:
        """Report the token usage from the last frame of a network read.

        Each frame contains the totals so far, so the usage of earlier frames is not needed.
        """
        if self._usage:
            count_tokens(self._usage, out)
            self._usage = {}

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Parse an answer that was not streamed, or that was streamed as one JSON array."""
        body = body.removeprefix(_BOM).strip()
        self._keeps_all = self._wants_all and not body.startswith(b"[")
        self.feed(body, out)
        self.after_read(out)
        if self._several and self._keeps_all and out.stop_reason is not None:
            for candidate in _others(body, out.names):
                out.extension(ExtensionBlock.CHOICE, candidate)

    def _add_text(self, chunk: TextChunk, out: EventWriter) -> bool:
        """Add a frame's text to the open block, and return True.

        Return False, without adding text, if the frame contains anything other than this text.
        """
        candidates = chunk.candidates
        if len(candidates) != 1 or candidates[0].index:
            return False
        parts = candidates[0].content.parts
        if len(parts) != 1 or not parts[0].text:
            return False
        if chunk.response_id != out.response_id or chunk.model_version != out.model:
            return False
        usage = chunk.usage_metadata
        if usage:
            if usage.keys() != self._usage.keys():
                self.after_read(out)  # count fields that only the earlier frame has
            self._usage = usage
        out.text(parts[0].text, self._block)
        return True

    def _chunk(self, chunk: Chunk, frame: bytes, out: EventWriter) -> None:
        if chunk.error is not None:
            failure = Failure("streaming", body=frame)
            read_error(failure)
            out.fail(failure)
            return
        if chunk.response_id != out.response_id or chunk.model_version != out.model:
            out.response(chunk.response_id, chunk.model_version)
        if chunk.usage_metadata:
            if chunk.usage_metadata.keys() != self._usage.keys():
                self.after_read(out)  # fields of only the earlier one are kept
            self._usage = chunk.usage_metadata
        feedback = chunk.prompt_feedback
        if feedback is not None:
            said = {"blockReason": feedback.block_reason, "safetyRatings": feedback.safety_ratings}
            if told := {name: value for name, value in said.items() if value}:
                out.response(metadata={"promptFeedback": told})
        candidates = chunk.candidates or ()
        candidate = next((c for c in candidates if not c.index), None)
        if not self._several and len(candidates) > (candidate is not None):
            self._several = True
            if candidate is None or not self._keeps_all:
                what = "the provider sent several answers; only the first is used"
                out.notice("other_choices", what)
        if candidate is not None:
            self._candidate(candidate, out)
        elif feedback is not None and feedback.block_reason:
            why = feedback.block_reason_message or feedback.block_reason
            out.fail(
                Failure(
                    "streaming",
                    code=feedback.block_reason,
                    type=BLOCKED_PROMPT,
                    message=f"the prompt was blocked: {why}",
                )
            )

    def _candidate(self, candidate: Candidate, out: EventWriter) -> None:
        content, parts = candidate.content, (candidate.content and candidate.content.parts) or ()
        if self._in_text and not self._block_is_whole and len(parts) == 1:
            text = parts[0].get("text")
            bare = parts[0] == {"text": text} and candidate == Candidate(candidate.index, content)
            if bare and text and isinstance(text, str):
                self._says_only_text = True
                out.text(text, self._block)
                return
        # Parse all calls before creating any event, so that a frame is used as a whole or not at
        # all.
        for part in parts:
            text_field(part.get("text"), "text")
            text_field(part.get("thoughtSignature"), "thoughtSignature")
        for part, call in [(part, function_call(part)) for part in parts]:
            if call is not None:
                self._function_call(part, call, out)
            else:
                self._part(part, out)
        self._about_text(candidate, out)
        if candidate.safety_ratings:
            self._facts["safetyRatings"] = candidate.safety_ratings
        if candidate.avg_logprobs is not None:
            self._facts["avgLogprobs"] = candidate.avg_logprobs
        if candidate.logprobs_result:
            self._note_logprobs(candidate.logprobs_result, out)
        if candidate.finish_reason:
            self._end(candidate.finish_reason, candidate, out)

    def _note_logprobs(self, logprobs: dict[str, Any], out: EventWriter) -> None:
        """Store the log probabilities of a frame until the end of the answer."""
        chars = len(str(logprobs))
        self._chars += chars
        out.hold(chars)
        for name, piece in logprobs.items():
            self._logprobs[name] = _summed(self._logprobs.get(name), piece)

    # -- parts -------------------------------------------------------------------------------

    def _part(self, part: dict[str, Any], out: EventWriter) -> None:
        kind = next((name for name in part if name not in _BESIDE_CONTENT), "text")
        if kind == "text":
            self._text(part, part.get("text") or "", out)
        else:
            self._cited, self._in_text = {}, False
            out.extension(kind, part)

    def _text(self, part: dict[str, Any], text: str, out: EventWriter) -> None:
        rest = {name: part[name] for name in part if name not in ("text", "thought")}
        if not (text or rest):
            return
        if rest or self._block_is_whole:
            self._block += 1
            self._cited = {}
        self._block_is_whole = bool(rest)
        self._in_text = not part.get("thought")
        if part.get("thought"):
            signature = rest.pop("thoughtSignature", None)
            out.thinking(text, self._block, signature and str(signature), metadata=rest or None)
        else:
            out.text(text, self._block, rest or None)

    def _function_call(self, part: dict[str, Any], call: FunctionCall, out: EventWriter) -> None:
        begins = bool(call.name or call.id)
        rest = {field: part[field] for field in part if field != "functionCall"}
        if begins:
            self._cited, self._in_text = {}, False
            self._end_call(out)
            self._calls += 1
            out.tool_call(self._key, call.id, call.name, metadata=rest or None)
            if call.partial_args or call.will_continue:
                self._pieces = ArgumentText()
                out.tool_call(self._key)  # start the call now, even if its id is not known
        elif self._pieces is not None and rest:
            out.tool_call(self._key, metadata=rest)
        if self._pieces is not None:
            self._add(self._pieces, call, out)
            if not call.will_continue:
                self._end_call(out, cut=out.failure is not None)
        elif begins:
            # complete, so an object even if there are no arguments
            whole = msgspec.json.encode(call.args or {}).decode()
            out.tool_call(self._key, arguments=whole)
            out.end(self._key)

    def _add(self, text: ArgumentText, call: FunctionCall, out: EventWriter) -> None:
        try:
            for name, value in (call.args or {}).items():
                out.tool_call(self._key, arguments=text.value([name], value))
            for piece in call.partial_args or ():
                out.tool_call(self._key, arguments=text.add(piece))
        except OutOfOrder as error:
            message = f"a piece of a function call's arguments cannot be placed: {error}"
            out.fail(Failure("streaming", code="partial_args", message=message))

    def _end_call(self, out: EventWriter, cut: bool = False) -> None:
        if self._pieces is not None:
            if not cut:
                out.tool_call(self._key, arguments=self._pieces.close())
            out.end(self._key)
            self._pieces = None

    @property
    def _key(self) -> tuple[str, int]:
        return ("call", self._calls)

    # -- facts about the answer --------------------------------------------------------------

    def _about_text(self, candidate: Candidate, out: EventWriter) -> None:
        """Collect the sources of text (citations and grounding data).

        A frame contains only new citations, but all grounding data so far. A citation belongs to
        the text that precedes its first arrival. All citations of a block are added to one object
        in the block's metadata. The object's size is measured again only when the number of
        citations has doubled, which keeps the work linear.
        """
        before = sum(map(len, self._cited.values()))
        for name, found in (candidate.citation_metadata or {}).items():
            for item in found if isinstance(found, list) else [found]:
                key = (name, msgspec.json.encode(item, order="sorted"))
                if key not in self._known:
                    self._known.add(key)
                    self._cited.setdefault(name, []).append(item)
        cited = sum(map(len, self._cited.values())).bit_length() > before.bit_length()
        about = {
            "citationMetadata": self._cited if cited else None,
            "groundingMetadata": candidate.grounding_metadata,
            "urlContextMetadata": candidate.url_context_metadata,
        }
        queries = (candidate.grounding_metadata or {}).get("webSearchQueries")
        if isinstance(queries, list) and (billed := {*map(str, queries)} - {""}):
            by_prompt = (out.model or "").startswith("gemini-2")  # Gemini 3 bills each query
            out.usage(extra={"searches": 1 if by_prompt else len(billed)})
        if known_now := {name: found for name, found in about.items() if found}:
            out.text("", self._block, known_now)

    def _end(self, word: str, candidate: Candidate, out: EventWriter) -> None:
        reason = STOP_REASONS.get(word)
        self._end_call(out, cut=reason is not StopReason.STOP)
        why = candidate.finish_message or ""
        if word in FAILURES:
            out.fail(
                Failure("streaming", code=word, message=why or f"the answer ended with {word}")
            )
            return
        if word != self._word:
            self._word = word
            if reason is StopReason.CONTENT_FILTER:
                out.notice("refusal", f"{word}: {why or _blocked(candidate)}".removesuffix(": "))
            elif reason is None:
                out.notice("stop_reason", f"the answer ended with {word}{why and f': {why}'}")
            elif why or word == "TOO_MANY_TOOL_CALLS":
                out.notice("stop_reason", f"{word}{why and f': {why}'}")
        if word == "CONTINUATION" and candidate.continuation_token:
            out.extension(CONTINUATION, candidate.continuation_token)
        if word not in PLAIN or "finishReason" in self._facts:
            self._facts["finishReason"] = word
        if why:
            self._facts["finishMessage"] = why
        out.hold(-self._chars)
        self._chars = 0
        if self._logprobs and self._in_text:
            out.text("", self._block, {"logprobsResult": self._logprobs})
        elif self._logprobs:
            self._facts["logprobsResult"] = self._logprobs
        out.response(metadata=self._facts)
        out.stop(reason or StopReason.STOP)


def _others(body: bytes, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the candidates of a response, except the first.

    `names` maps the sent names of tools to the caller's names.
    """
    candidates = msgspec.json.decode(body)["candidates"]
    first = next(at for at, one in enumerate(candidates) if not one.get("index"))
    for at, candidate in enumerate(candidates):
        if at != first:
            _rename_calls(candidate, names)
            yield candidate


def _rename_calls(candidate: dict[str, Any], names: Mapping[str, str]) -> None:
    for part in (candidate.get("content") or {}).get("parts") or ():
        call = part.get("functionCall")
        name = call.get("name") if isinstance(call, dict) else None
        if isinstance(name, str) and name in names:
            call["name"] = names[name]


def _blocked(candidate: Candidate) -> str:
    ratings = candidate.safety_ratings or ()
    return ", ".join(str(rating.get("category")) for rating in ratings if rating.get("blocked"))


def _summed(known: Any, piece: Any) -> Any:
    """Join two lists or add two numbers; for other types, return the later value."""
    if isinstance(known, list) and isinstance(piece, list):
        return known + piece
    if isinstance(known, int | float) and isinstance(piece, int | float):
        return known + piece
    return piece
