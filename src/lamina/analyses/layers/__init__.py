"""What each layer knows: probes, word order, trees, the geometry of hidden states."""
