"""Faults that change nothing, each with its proof: `path: line: before → after` as the runner prints them."""

PROVED: dict[str, str] = {}
