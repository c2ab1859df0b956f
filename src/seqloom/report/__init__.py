"""Rows on disk → figures, tables and one HTML page; imports no torch."""
