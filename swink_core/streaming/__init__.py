"""Runs a call: its attempts, time limits and retries, and the order of its events."""
