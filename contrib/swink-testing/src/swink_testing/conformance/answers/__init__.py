"""Checks of answers: the message contains everything that the answer contains."""
