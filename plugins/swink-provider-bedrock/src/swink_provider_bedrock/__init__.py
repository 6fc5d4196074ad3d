"""Amazon Bedrock's Converse API for swink."""

from swink_provider_bedrock.provider import BedrockProvider

__all__ = ["BedrockProvider"]
