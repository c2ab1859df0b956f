"""Models of other programs, read from their files: see `load`."""
