"""What every layer holds: probes, order, trees, and the geometry of hidden states."""
