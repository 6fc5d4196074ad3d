"""Checks of requests: the whole call is sent, in the format that the API expects."""
