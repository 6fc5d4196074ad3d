"""Checks of answers: whatever an answer says is in its message."""
