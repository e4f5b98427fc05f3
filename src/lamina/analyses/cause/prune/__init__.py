"""Remove heads or blocks one after another."""
