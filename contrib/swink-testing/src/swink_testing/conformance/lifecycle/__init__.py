"""Checks of the life of a call: cancellation, credentials, connections, memory, secrets."""
