"""Mixers that predict numbers, at equal parameters."""
