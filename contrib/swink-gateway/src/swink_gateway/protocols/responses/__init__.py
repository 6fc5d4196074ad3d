"""The protocol of OpenAI's Responses."""
