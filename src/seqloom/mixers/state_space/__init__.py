"""State space models: linear recurrences, fixed or chosen by the input."""
