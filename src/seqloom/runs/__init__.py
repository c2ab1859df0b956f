"""A run's folder: its layout and lock, its checkpoints, its metrics."""
