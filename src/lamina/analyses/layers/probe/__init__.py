"""Probe."""
