"""Checks that a provider's messages contain everything that the API's answers contain."""
