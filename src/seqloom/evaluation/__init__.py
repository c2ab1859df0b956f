"""Scores of a model on held-out data."""
