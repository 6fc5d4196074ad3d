"""Sans-IO decoders that turn the bytes of a streaming response into frames."""

from .frame import DEFAULT_FRAME_LIMIT, Decoder, FrameTooLong
from .ndjson import NDJSONDecoder
from .sse import ServerSentEvent, SSEDecoder, SSEEventDecoder

__all__ = [
    "DEFAULT_FRAME_LIMIT",
    "Decoder",
    "FrameTooLong",
    "NDJSONDecoder",
    "SSEDecoder",
    "SSEEventDecoder",
    "ServerSentEvent",
]
