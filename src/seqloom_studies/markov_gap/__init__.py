"""Models next to the true Markov chain, as its order grows past their context."""
