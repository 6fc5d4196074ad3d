"""Other libraries before the same faults and the same judge."""
