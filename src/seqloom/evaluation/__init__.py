"""How good a model is on text that it did not learn."""
