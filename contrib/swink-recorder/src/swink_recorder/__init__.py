"""Recordings of what went over the wire: their format, capture and replay."""
