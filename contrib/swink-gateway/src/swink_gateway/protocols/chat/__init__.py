"""The protocol of OpenAI's Chat Completions."""
