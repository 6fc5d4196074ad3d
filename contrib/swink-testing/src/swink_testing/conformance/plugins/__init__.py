"""Checks of a plugin's package, and the description of an observer or wrapper under test."""
