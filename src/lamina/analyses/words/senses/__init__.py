"""Senses."""
