"""Azure OpenAI for swink: OpenAI's APIs on an Azure resource."""

from swink_provider_azure.provider import AzureProvider

__all__ = ["AzureProvider"]
