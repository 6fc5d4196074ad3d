"""Judges swink by the recorded traffic of other projects."""
