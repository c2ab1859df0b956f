"""Norms, gates, products and short convolutions: what a layer computes around its sum over time, in one pass."""
