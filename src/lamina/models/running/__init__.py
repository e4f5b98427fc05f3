"""Words to tokens, batches, devices: how a model runs and what it hands out."""
