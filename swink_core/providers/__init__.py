"""The building blocks of providers, from the bytes of a response to events."""

from swink_core.failures.asynchronous import AsyncOnly
from swink_core.failures.classification import by_tables
from swink_core.failures.failure import MalformedFrame, Phase
from swink_core.failures.kinds import KINDS, health_of
from swink_core.failures.redaction import codings_of_secret
from swink_core.failures.waits import wait_seconds
from swink_core.framing.frame import DEFAULT_FRAME_LIMIT, Decoder, FrameError, FrameTooLong
from swink_core.framing.ndjson import NDJSONDecoder
from swink_core.framing.sse import SSEDecoder
from swink_core.framing.text import TextDecoder
from swink_core.plugins.attempt import Attempt, Gate, Leg
from swink_core.plugins.binding import first_set
from swink_core.plugins.catalog import Catalog
from swink_core.plugins.changes import report_change
from swink_core.plugins.limits import LimitGate
from swink_core.providers.aiohttp_client import AiohttpClient
from swink_core.providers.clock import LoopClock
from swink_core.providers.commands import end_group, not_started
from swink_core.providers.contexts import (
    folded_system,
    paths_inside,
    required_features,
    system_blocks,
    text_of,
    without_leading,
)
from swink_core.providers.conversion import (
    SENT_ELSEWHERE,
    LeftOut,
    accepted_id,
    arguments_object,
    marked_system,
    normalise,
)
from swink_core.providers.converter import MessageConverter, merged_turns
from swink_core.providers.exchange import Exchange
from swink_core.providers.features import API, context_notices
from swink_core.providers.fields import with_extra, with_metadata
from swink_core.providers.intact import text_field
from swink_core.providers.knobs import Knobs, sent_options
from swink_core.providers.media import media_base64, media_form, media_type_of, unsupported
from swink_core.providers.network import failure_of
from swink_core.providers.provider import HTTPProvider
from swink_core.providers.rules import Fitted, rule_of
from swink_core.providers.schemas import (
    closed_schema,
    inlined_schema,
    plain_tuple,
    plain_union,
    rewritten_schema,
)
from swink_core.providers.source import EventSource, Parser
from swink_core.providers.tokens import Grant, Token, TokenHTTP
from swink_core.providers.writer import EventWriter
from swink_core.vocabulary.charges import prompt_of, reservation
from swink_core.vocabulary.clock import Clock
from swink_core.vocabulary.grammar import Automaton
from swink_core.vocabulary.habits import CONTEXT_WORDS
from swink_core.vocabulary.hosted_tools import hosted_tools
from swink_core.vocabulary.http import HTTPClient, HTTPRequest, HTTPResponse
from swink_core.vocabulary.messages import Source, is_synthetic_id, parse_arguments, synthetic_id
from swink_core.vocabulary.models import FEATURES
from swink_core.vocabulary.option_table import OPTIONS, TUNING, takes_options
from swink_core.vocabulary.options import TargetOptions
from swink_core.vocabulary.prices import cost_of

__all__ = [
    "API",
    "CONTEXT_WORDS",
    "DEFAULT_FRAME_LIMIT",
    "FEATURES",
    "KINDS",
    "OPTIONS",
    "SENT_ELSEWHERE",
    "TUNING",
    "AiohttpClient",
    "AsyncOnly",
    "Attempt",
    "Automaton",
    "Catalog",
    "Clock",
    "Decoder",
    "EventSource",
    "EventWriter",
    "Exchange",
    "Fitted",
    "FrameError",
    "FrameTooLong",
    "Gate",
    "Grant",
    "HTTPClient",
    "HTTPProvider",
    "HTTPRequest",
    "HTTPResponse",
    "Knobs",
    "LeftOut",
    "Leg",
    "LimitGate",
    "LoopClock",
    "MalformedFrame",
    "MessageConverter",
    "NDJSONDecoder",
    "Parser",
    "Phase",
    "SSEDecoder",
    "Source",
    "TargetOptions",
    "TextDecoder",
    "Token",
    "TokenHTTP",
    "accepted_id",
    "arguments_object",
    "by_tables",
    "closed_schema",
    "codings_of_secret",
    "context_notices",
    "cost_of",
    "end_group",
    "failure_of",
    "first_set",
    "folded_system",
    "health_of",
    "hosted_tools",
    "inlined_schema",
    "is_synthetic_id",
    "marked_system",
    "media_base64",
    "media_form",
    "media_type_of",
    "merged_turns",
    "normalise",
    "not_started",
    "parse_arguments",
    "paths_inside",
    "plain_tuple",
    "plain_union",
    "prompt_of",
    "report_change",
    "required_features",
    "reservation",
    "rewritten_schema",
    "rule_of",
    "sent_options",
    "synthetic_id",
    "system_blocks",
    "takes_options",
    "text_field",
    "text_of",
    "unsupported",
    "wait_seconds",
    "with_extra",
    "with_metadata",
    "without_leading",
]
