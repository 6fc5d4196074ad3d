"""Commands of `swink` from the entry-point group `swink.commands`; needs swink-cli."""
