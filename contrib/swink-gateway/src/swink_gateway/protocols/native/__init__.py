"""The native protocol of swink."""
