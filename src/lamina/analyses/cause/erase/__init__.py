"""Erase a concept from a layer and measure what changes above."""
