"""Decision Transformers next to behaviour cloning."""
