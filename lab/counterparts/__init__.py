"""Other people's servers, SDKs and tools, used with swink's telemetry, gateway and providers."""
