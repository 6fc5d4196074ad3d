"""Data types and interfaces that all other packages use. They do no I/O."""
