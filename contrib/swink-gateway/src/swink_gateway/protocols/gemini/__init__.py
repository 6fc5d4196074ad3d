"""The protocol of Google's Gemini API."""
