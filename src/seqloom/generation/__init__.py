"""Generation: sampling a token from logits, and continuing a text."""
