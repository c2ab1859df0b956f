"""From text to tokens, windows and batches."""
