"""Poles in place of the taps of a trained Extractor, for a state of constant size."""
