"""The package that applications import: calls with tools, typed answers and synchronous use.

    client.py     the client: streams, typed answers, tool loops ("runs"), batches
    sync.py       the same client without await, which runs on the event loop of background.py;
                  its streams and runs are in sync_streams.py
    loop.py       the tool loop; toolbox.py carries out tool calls, events.py defines its events
    approvals.py  decisions on tool calls, and paused runs
    goals.py      the typed value that a run returns
    mistakes.py   short tracebacks, and hints for users who know other libraries
    tools.py      functions as tools
    answers.py    typed answers
    batches.py    many prompts, answered concurrently
    schemas.py    types as JSON schemas; partial.py parses incomplete JSON
    media.py      images, documents, audio
    prompts.py    the prompts that a call accepts
    notebooks.py  the display of messages and streams in IPython and Jupyter
    of_stream.py  shared code of streams, typed answers and runs
    amounts.py    sums of the usage and cost of several calls
    arguments.py  checks of the arguments of runs and batches
    threads.py    blocking functions in daemon threads
    times.py      the formats of dates and times in JSON schemas

The modules are imported when one of their names is first used.
"""

import logging
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    AudioBlock,
    AuthenticationError,
    Base64Source,
    Block,
    CacheStrategy,
    Call,
    Charge,
    ClientOptions,
    CodecError,
    ContentFiltered,
    Context,
    ContextWindowExceeded,
    Conversation,
    Cost,
    DocumentBlock,
    Done,
    EmptyResponse,
    Error,
    Event,
    EventStream,
    Extension,
    ExtensionBlock,
    Failure,
    FileIdSource,
    FileSource,
    ImageBlock,
    InvalidContext,
    InvalidModel,
    InvalidOption,
    InvalidRequest,
    LimitReached,
    Limits,
    MediaError,
    Message,
    Model,
    ModelChain,
    ModelInfo,
    ModelNotFound,
    ModelOverloaded,
    ModelThrottled,
    NetworkError,
    Notice,
    Options,
    OutputTooLarge,
    PluginError,
    PluginFault,
    ProtocolError,
    ProviderFailure,
    ProviderInfo,
    QuotaExhausted,
    ResourceExhausted,
    Retry,
    RetryPolicy,
    Start,
    StopReason,
    StreamAborted,
    StreamError,
    StreamErrorKind,
    StreamOptions,
    StreamTimeout,
    SwinkError,
    SystemMessage,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingLevel,
    ThinkingStart,
    Timeouts,
    Tool,
    ToolCallBlock,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResultMessage,
    UnknownFailure,
    UnknownProvider,
    Unsupported,
    UrlSource,
    Usage,
    UsageError,
    UserMessage,
    dump,
    hookimpl,
    load,
    replace,
)
from swink_core.providers import Gate

if TYPE_CHECKING:
    from swink.answers import Answer, AnswerStream, BadAnswer
    from swink.approvals import PAUSE, PausedRun, RunPaused
    from swink.batches import Batch
    from swink.client import (
        Client,
        answer,
        complete,
        gather,
        gather_answers,
        stream,
        stream_answer,
    )
    from swink.events import (
        Outcome,
        RunEnd,
        RunEvent,
        RunStart,
        ToolEnd,
        ToolStart,
        TurnEnd,
        TurnStart,
    )
    from swink.loop import Run, TooManyTurns
    from swink.media import audio, document, image
    from swink.prompts import Prompt
    from swink.sync import SyncClient, answer_sync, complete_sync
    from swink.sync_streams import SyncAnswerStream, SyncRun, SyncStream
    from swink.tools import FunctionTool, tool

__all__ = [
    "PAUSE",
    "Answer",
    "AnswerStream",
    "AssistantMessage",
    "AssistantMessageEvent",
    "AudioBlock",
    "AuthenticationError",
    "BadAnswer",
    "Base64Source",
    "Batch",
    "Block",
    "CacheStrategy",
    "Call",
    "Charge",
    "Client",
    "ClientOptions",
    "CodecError",
    "ContentFiltered",
    "Context",
    "ContextWindowExceeded",
    "Conversation",
    "Cost",
    "DocumentBlock",
    "Done",
    "EmptyResponse",
    "Error",
    "Event",
    "EventStream",
    "Extension",
    "ExtensionBlock",
    "Failure",
    "FileIdSource",
    "FileSource",
    "FunctionTool",
    "Gate",
    "ImageBlock",
    "InvalidContext",
    "InvalidModel",
    "InvalidOption",
    "InvalidRequest",
    "LimitReached",
    "Limits",
    "MediaError",
    "Message",
    "Model",
    "ModelChain",
    "ModelInfo",
    "ModelNotFound",
    "ModelOverloaded",
    "ModelThrottled",
    "NetworkError",
    "Notice",
    "Options",
    "Outcome",
    "OutputTooLarge",
    "PausedRun",
    "PluginError",
    "PluginFault",
    "Prompt",
    "ProtocolError",
    "ProviderFailure",
    "ProviderInfo",
    "QuotaExhausted",
    "ResourceExhausted",
    "Retry",
    "RetryPolicy",
    "Run",
    "RunEnd",
    "RunEvent",
    "RunPaused",
    "RunStart",
    "Start",
    "StopReason",
    "StreamAborted",
    "StreamError",
    "StreamErrorKind",
    "StreamOptions",
    "StreamTimeout",
    "SwinkError",
    "SyncAnswerStream",
    "SyncClient",
    "SyncRun",
    "SyncStream",
    "SystemMessage",
    "TextBlock",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingBlock",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingLevel",
    "ThinkingStart",
    "Timeouts",
    "TooManyTurns",
    "Tool",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolEnd",
    "ToolResultMessage",
    "ToolStart",
    "TurnEnd",
    "TurnStart",
    "UnknownFailure",
    "UnknownProvider",
    "Unsupported",
    "UrlSource",
    "Usage",
    "UsageError",
    "UserMessage",
    "answer",
    "answer_sync",
    "audio",
    "complete",
    "complete_sync",
    "document",
    "dump",
    "gather",
    "gather_answers",
    "hookimpl",
    "image",
    "load",
    "replace",
    "stream",
    "stream_answer",
    "tool",
]  # fmt: skip

_HOMES = {
    "answers": "Answer AnswerStream BadAnswer",
    "approvals": "PAUSE PausedRun RunPaused",
    "batches": "Batch",
    "client": "Client answer complete gather gather_answers stream stream_answer",
    "events": "Outcome RunEnd RunEvent RunStart ToolEnd ToolStart TurnEnd TurnStart",
    "loop": "Run TooManyTurns",
    "media": "audio document image",
    "prompts": "Prompt",
    "sync": "SyncClient answer_sync complete_sync",
    "sync_streams": "SyncAnswerStream SyncRun SyncStream",
    "tools": "FunctionTool tool",
}

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            from swink.mistakes import missing_name

            module = sys.modules[__name__]
            raise AttributeError(missing_name(__name__, name), name=name, obj=module)
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    import_module(f"{__name__}.notebooks").register(_shell)

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
