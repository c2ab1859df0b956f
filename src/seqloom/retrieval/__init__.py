"""What a model read before, on disk, and looked up while it predicts."""
