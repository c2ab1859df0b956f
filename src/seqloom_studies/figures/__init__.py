"""Figures of the source texts that need no training."""
