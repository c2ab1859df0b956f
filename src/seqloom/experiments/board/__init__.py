"""The board: today's replacements of attention trained alike, at equal parameters, each at its own learning rate."""
