"""A release, built and tried as far as the upload."""
