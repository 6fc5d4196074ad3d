"""OpenAI's Chat Completions and Responses APIs for swink, also for services with the same APIs."""

from swink_provider_openai.converter import ChatConverter
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.parser import ChatParser
from swink_provider_openai.provider import OpenAIProvider

__all__ = ["ChatConverter", "ChatParser", "Dialect", "OpenAIProvider"]
