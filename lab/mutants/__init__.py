"""Faults put into the core and into providers, to count what the tests find."""
