"""The four hooks, what they are given, and the host that finds, loads and binds plugins."""
