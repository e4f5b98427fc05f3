"""Contextualize."""
