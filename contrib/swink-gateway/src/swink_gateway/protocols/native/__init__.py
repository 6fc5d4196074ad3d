"""swink's own protocol."""
