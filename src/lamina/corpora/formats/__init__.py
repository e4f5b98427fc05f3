"""Readers of annotated texts; `catalogue` lists them in the order in which they are tried."""
