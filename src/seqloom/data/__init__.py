"""Text into tokens into windows into batches."""
