"""What a state keeps of earlier tokens: rings, caches and compressed tokens, and rows of kept tokens."""
