"""How much loss does a mixer save as the model gets wider? A study of another package."""
