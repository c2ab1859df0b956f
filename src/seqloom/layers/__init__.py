"""Modules with parameters that several mixers use; their equations are in `seqloom.ops`."""
