"""Failures: their facts, classification and advice."""
