"""The commands `swink tail` and `swink top`."""
