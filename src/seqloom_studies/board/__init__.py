"""The board: replacements of attention with equal parameters, trained alike, each at its best learning rate."""
