"""Checks that requests contain everything in the call, in the format that the API expects."""
