"""Reproducible measurements of what swink costs; never part of the tests."""
