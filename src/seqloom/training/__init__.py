"""What changes weights: the optimizer and the loop."""
