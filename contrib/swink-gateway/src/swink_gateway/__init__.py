"""Any client protocol on top of any provider; `server.Gateway` is where to begin."""
