"""Vectors -> predictions: probes, trained many at a time."""
