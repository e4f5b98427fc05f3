"""Heads, blocks, states and weights of a model changed: ablated, replaced, re-initialised, pruned."""
