"""The protocol of Ollama's API."""
