"""Sans-IO decoders that turn the bytes of a streaming response into frames."""

from swink_core.framing.frame import DEFAULT_FRAME_LIMIT, Decoder, FrameError, FrameTooLong
from swink_core.framing.ndjson import NDJSONDecoder
from swink_core.framing.sse import SSEDecoder
from swink_core.framing.text import TextDecoder

__all__ = [
    "DEFAULT_FRAME_LIMIT",
    "Decoder",
    "FrameError",
    "FrameTooLong",
    "NDJSONDecoder",
    "SSEDecoder",
    "TextDecoder",
]
