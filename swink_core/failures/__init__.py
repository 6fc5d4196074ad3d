"""Exceptions and kinds of failure, their classification, and the advice shown to people."""
