"""Checks of a package, and the subject of observers and wrappers."""
