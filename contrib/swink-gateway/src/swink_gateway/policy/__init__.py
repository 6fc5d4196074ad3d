"""Access, routing, limits and budgets: what each client of the gateway may ask for."""
