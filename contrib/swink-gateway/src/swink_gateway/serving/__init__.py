"""The HTTP server: routes, WebSockets, workers, reloading, metrics and the live feed."""
