"""Attention-free Transformers: averages weighted by keys and positions, per channel."""
