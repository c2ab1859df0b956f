"""Where a token is: positions that act on the embedding, on queries and keys, or on scores."""
