"""The laboratory: what measures and judges swink, none of it released."""
