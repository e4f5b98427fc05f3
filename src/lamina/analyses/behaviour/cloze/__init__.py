"""Cloze."""
