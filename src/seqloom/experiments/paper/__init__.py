"""The Extractor paper replicated: its figures and tables by their numbers, and the controls that it lacks."""
