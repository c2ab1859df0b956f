"""Convolutions over time, short or as long as the context."""
