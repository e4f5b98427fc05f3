"""Trees in layers and in attention: structural probes, and trees from attention maps."""
