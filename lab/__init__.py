"""The laboratory measures and judges swink; none of it is released."""
