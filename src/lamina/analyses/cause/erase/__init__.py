"""Erase."""
