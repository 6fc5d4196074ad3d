"""The APIs that the vendor speaks, a module each."""
