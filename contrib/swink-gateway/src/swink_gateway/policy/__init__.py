"""Access, routing, limits and budgets of the gateway's clients."""
