"""Whether a question is answered better before the text that answers it, or after."""
