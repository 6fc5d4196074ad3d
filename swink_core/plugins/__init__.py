"""The four hooks, their arguments, and the host that finds, loads and binds plugins."""
