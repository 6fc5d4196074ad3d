"""Checks of failures: errors, damage and faults end a call with the right kind."""
