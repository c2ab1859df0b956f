"""Mixing by fixed or implicit weights: Fourier transforms, triangular matrices, filters computed from the lag."""
