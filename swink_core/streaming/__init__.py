"""Runs a call: attempts, time limits, retries, and the order of events."""
