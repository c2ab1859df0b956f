"""The order of the parts: embedding, blocks, head."""
