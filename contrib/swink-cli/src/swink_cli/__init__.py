"""The `swink` command line: ask any installed provider's model from a terminal."""
