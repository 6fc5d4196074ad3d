"""OpenAI's Chat Completions and Responses, and the services that speak them, for swink."""

from swink_provider_openai.converter import ChatConverter
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.parser import ChatParser
from swink_provider_openai.provider import OpenAIProvider

__all__ = ["ChatConverter", "ChatParser", "Dialect", "OpenAIProvider"]
