"""Checks that errors, damaged answers and server faults end a call with the right error kind."""
