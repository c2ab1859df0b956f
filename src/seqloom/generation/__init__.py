"""Tokens out of a model: how one is drawn, and how the sequence is carried on."""
