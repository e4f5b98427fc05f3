"""Probe vs lens."""
