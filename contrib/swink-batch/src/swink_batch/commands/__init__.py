"""The command that this distribution adds to `swink`."""
