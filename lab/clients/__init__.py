"""Real coding agents, driven through the gateway."""
