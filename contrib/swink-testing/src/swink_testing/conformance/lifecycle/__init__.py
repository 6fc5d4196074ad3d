"""Checks of cancellation, credentials, connections, memory and secrets during and after calls."""
