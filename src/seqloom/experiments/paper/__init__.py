"""The Extractor paper done again: its figures and tables by their numbers, and the controls that it lacks."""
