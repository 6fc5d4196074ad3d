"""Google's Gemini models for swink, through the Gemini API and Vertex AI."""

import logging

from swink_provider_gemini.provider import GeminiProvider
from swink_provider_gemini.vertex import VertexProvider

__all__ = ["GeminiProvider", "VertexProvider"]

logging.getLogger(__name__).addHandler(logging.NullHandler())
