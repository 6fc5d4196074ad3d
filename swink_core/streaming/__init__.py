"""One call under way: its attempts, limits, retries and events, in order."""
