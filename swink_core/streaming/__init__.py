"""Runs a call, with attempts, time limits, retries and events in order."""
