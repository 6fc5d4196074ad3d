"""Checks of requests: the whole call is sent, and in the form of the API."""
