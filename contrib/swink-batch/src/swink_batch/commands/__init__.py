"""The command `swink batch`, which this distribution adds to swink-cli."""
