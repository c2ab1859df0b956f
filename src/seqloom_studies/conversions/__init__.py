"""Attention distilled into other mixers: what is lost, by the mixer, the layers that keep attention, and the tokens."""
