"""Models that predict pictures, number by number."""
