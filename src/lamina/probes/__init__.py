"""Vectors to predictions: probes, trained many at a time."""
