"""Helpers that the tests of this repository's distributions share; never released."""
