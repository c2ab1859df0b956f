"""The queue of a GPU: what is measured and trained first where a card is at hand for minutes."""
