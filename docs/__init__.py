"""The documentation: pages written by hand, and what makes the others."""
