"""Heads with a role, and what breaks without them."""
