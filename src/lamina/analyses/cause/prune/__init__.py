"""Prune."""
