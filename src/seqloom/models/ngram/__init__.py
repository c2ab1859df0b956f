"""Models that count n-grams."""
