"""Equations without parameters, each with a reference and the paths that are faster."""
