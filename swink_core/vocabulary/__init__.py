"""Data and protocol classes for all other packages, without I/O."""
