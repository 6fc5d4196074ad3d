"""One Python interface to every language-model provider's streaming API.

The packages are layers: each imports only from the packages listed before it.

    framing/      bytes to frames
    vocabulary/   the shared types: messages, events, options, models
    failures/     exceptions, kinds of failure, and the advice shown to people
    plugins/      the four hooks, and the host that finds, loads and binds plugins
    providers/    the building blocks of providers; plugin authors import from here
    streaming/    runs a call: attempts, time limits, retries, the order of events
    client.py     the class that applications use; arguments.py and conversation.py
                  check its arguments

Import from `swink_core` and `swink_core.providers` only. The modules inside the packages are
private.
"""

import logging

from swink_core.client import Client, ModelChain, complete, complete_sync, stream
from swink_core.failures.exceptions import (
    AuthenticationError,
    ContentFiltered,
    ContextWindowExceeded,
    EmptyResponse,
    InvalidContext,
    InvalidModel,
    InvalidOption,
    InvalidRequest,
    LimitReached,
    MediaError,
    ModelNotFound,
    ModelOverloaded,
    ModelThrottled,
    NetworkError,
    OutputTooLarge,
    PluginError,
    PluginFault,
    ProtocolError,
    ProviderFailure,
    QuotaExhausted,
    ResourceExhausted,
    StreamAborted,
    StreamError,
    StreamTimeout,
    UnknownFailure,
    UnknownProvider,
    Unsupported,
    UsageError,
)
from swink_core.failures.failure import Classification, Failure
from swink_core.plugins.binding import Target
from swink_core.plugins.call import Call
from swink_core.plugins.hookspecs import hookimpl
from swink_core.plugins.host import Host
from swink_core.streaming.event_stream import EventStream
from swink_core.vocabulary.codec import CodecError, dump, load
from swink_core.vocabulary.errors import SwinkError
from swink_core.vocabulary.events import (
    AssistantMessageEvent,
    Done,
    Error,
    Event,
    Extension,
    Notice,
    Retry,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from swink_core.vocabulary.http import ResponseHead
from swink_core.vocabulary.limits import Limits
from swink_core.vocabulary.messages import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    Context,
    Conversation,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    FileSource,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_core.vocabulary.models import Model, ModelInfo, ProviderInfo
from swink_core.vocabulary.options import (
    CacheStrategy,
    ClientOptions,
    Options,
    RetryPolicy,
    StreamOptions,
    ThinkingLevel,
    Timeouts,
)
from swink_core.vocabulary.outcome import Charge, Cost, StopReason, StreamErrorKind, Usage
from swink_core.vocabulary.structs import replace

__all__ = [
    "AssistantMessage", "AssistantMessageEvent", "AudioBlock", "AuthenticationError",
    "Base64Source", "Block", "CacheStrategy", "Call", "Charge", "Classification", "Client",
    "ClientOptions", "CodecError", "ContentFiltered", "Context", "ContextWindowExceeded",
    "Conversation", "Cost", "DocumentBlock", "Done", "EmptyResponse", "Error", "Event",
    "EventStream", "Extension", "ExtensionBlock", "Failure", "FileIdSource", "FileSource",
    "Host", "ImageBlock", "InvalidContext", "InvalidModel", "InvalidOption", "InvalidRequest",
    "LimitReached", "Limits", "MediaError", "Message", "Model", "ModelChain", "ModelInfo",
    "ModelNotFound", "ModelOverloaded", "ModelThrottled", "NetworkError", "Notice", "Options",
    "OutputTooLarge", "PluginError", "PluginFault", "ProtocolError", "ProviderFailure",
    "ProviderInfo", "QuotaExhausted", "ResourceExhausted", "ResponseHead", "Retry",
    "RetryPolicy", "Start", "StopReason", "StreamAborted", "StreamError", "StreamErrorKind",
    "StreamOptions", "StreamTimeout", "SwinkError", "SystemMessage", "Target", "TextBlock",
    "TextDelta", "TextEnd", "TextStart", "ThinkingBlock", "ThinkingDelta", "ThinkingEnd",
    "ThinkingLevel", "ThinkingStart", "Timeouts", "Tool", "ToolCallBlock", "ToolCallDelta",
    "ToolCallEnd", "ToolCallStart", "ToolResultMessage", "UnknownFailure", "UnknownProvider",
    "Unsupported", "UrlSource", "Usage", "UsageError", "UserMessage", "complete",
    "complete_sync", "dump", "hookimpl", "load", "replace", "stream",
]  # fmt: skip

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
