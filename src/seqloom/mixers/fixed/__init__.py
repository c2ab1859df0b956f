"""Mixers that learn nothing about which tokens to read."""
