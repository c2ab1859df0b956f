"""The Extractors, and their approximation by a few poles."""
