"""What a provider is made of, from bytes to events; no provider is here."""

from swink_core.failures.classification import by_tables
from swink_core.failures.failure import MalformedFrame, Phase
from swink_core.failures.kinds import CODES, KINDS, health_of
from swink_core.failures.redaction import redact
from swink_core.failures.waits import duration_seconds, retry_after_seconds
from swink_core.framing.frame import DEFAULT_FRAME_LIMIT, Decoder, FrameError, FrameTooLong
from swink_core.framing.ndjson import NDJSONDecoder
from swink_core.framing.sse import SSEDecoder
from swink_core.plugins.binding import first_set
from swink_core.plugins.call import Attempt, Gate
from swink_core.plugins.catalog import Catalog
from swink_core.plugins.changes import report_change
from swink_core.plugins.package_data import package_catalog
from swink_core.providers.aiohttp_client import AiohttpClient
from swink_core.providers.clock import LoopClock
from swink_core.providers.commands import end_group, not_started
from swink_core.providers.conversion import (
    SENT_ELSEWHERE,
    LeftOut,
    MessageConverter,
    Turn,
    accepted_id,
    arguments_object,
    called_ids,
    folded_system,
    last_text_path,
    marked_system,
    merged_turns,
    normalise,
    paths_inside,
    required_features,
    system_blocks,
    text_of,
    unparsed,
    without_leading,
)
from swink_core.providers.features import API, context_notices
from swink_core.providers.fields import (
    merge_fields,
    model_path,
    with_extra,
    with_metadata,
)
from swink_core.providers.intact import check_json, repaired_json, text_field
from swink_core.providers.knobs import Convert, Knobs, sent_options
from swink_core.providers.media import media_base64, media_form, media_type_of, unsupported
from swink_core.providers.network import failure_of, is_own_address
from swink_core.providers.open_blocks import MOST_BLOCKS, kept_of
from swink_core.providers.provider import HTTPProvider
from swink_core.providers.rules import Fitted, rule_of
from swink_core.providers.schemas import closed_schema, inlined_schema, rewritten_schema
from swink_core.providers.source import EventSource, Parser
from swink_core.providers.writer import EventWriter
from swink_core.vocabulary.clock import Clock, Timer
from swink_core.vocabulary.codec import load_event
from swink_core.vocabulary.grammar import Automaton
from swink_core.vocabulary.http import HTTPClient, HTTPRequest, HTTPResponse
from swink_core.vocabulary.messages import Source, is_synthetic_id, parse_arguments, synthetic_id
from swink_core.vocabulary.option_table import OPTIONS, TUNING, Option, takes_options
from swink_core.vocabulary.options import THINKING_BUDGETS, TargetOptions
from swink_core.vocabulary.prices import cost_of

__all__ = [
    "API", "CODES", "DEFAULT_FRAME_LIMIT", "KINDS", "MOST_BLOCKS", "OPTIONS",
    "SENT_ELSEWHERE", "THINKING_BUDGETS",
    "TUNING", "AiohttpClient", "Attempt", "Automaton", "Catalog", "Clock", "Convert", "Decoder",
    "EventSource", "EventWriter", "Fitted", "FrameError", "FrameTooLong", "Gate", "HTTPClient",
    "HTTPProvider", "HTTPRequest", "HTTPResponse", "Knobs", "LeftOut", "LoopClock",
    "MalformedFrame",
    "MessageConverter", "NDJSONDecoder", "Option", "Parser", "Phase", "SSEDecoder", "Source",
    "TargetOptions", "Timer", "Turn", "accepted_id", "arguments_object", "by_tables", "called_ids",
    "check_json", "closed_schema", "context_notices", "cost_of", "duration_seconds", "end_group",
    "failure_of", "first_set", "folded_system", "health_of", "inlined_schema", "is_own_address",
    "is_synthetic_id", "kept_of", "last_text_path", "load_event", "marked_system", "media_base64",
    "media_form",
    "media_type_of", "merge_fields", "merged_turns", "model_path", "normalise", "not_started",
    "package_catalog", "parse_arguments", "paths_inside", "redact", "repaired_json",
    "report_change", "required_features",
    "retry_after_seconds", "rewritten_schema", "rule_of", "sent_options", "synthetic_id",
    "system_blocks", "takes_options", "text_field", "text_of", "unparsed", "unsupported",
    "with_extra",
    "with_metadata", "without_leading",
]  # fmt: skip
