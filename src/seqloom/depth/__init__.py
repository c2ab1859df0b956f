"""After which layer a token has its output: weights that say so, trained on a model that stays as it is."""
