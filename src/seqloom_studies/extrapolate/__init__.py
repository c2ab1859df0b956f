"""Trained models on texts that are longer than those of their training."""
