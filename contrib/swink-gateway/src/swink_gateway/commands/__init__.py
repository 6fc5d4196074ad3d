"""What `swink` finds here through the entry-point group `swink.commands`; needs swink-cli."""
