"""Azure OpenAI for swink: OpenAI's APIs at a resource of one's own."""

from swink_provider_azure.provider import AzureProvider

__all__ = ["AzureProvider"]
