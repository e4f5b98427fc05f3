"""Checks of a model before its numbers are trusted, and the passport that keeps their verdict."""
