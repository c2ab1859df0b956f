"""Gated and plain recurrent networks."""
