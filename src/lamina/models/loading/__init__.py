"""From a name to a model: the hub, folders, GGUF files, adapters, series of checkpoints, other processes."""
