"""The price of a mixer or a model: by formula, by counting, by timing."""
