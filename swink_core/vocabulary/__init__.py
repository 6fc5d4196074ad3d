"""What everything may name: data and protocol classes, with no I/O."""
