"""The layer at which a probe reads a property of a masked word, beside the layer at which the lens predicts it."""
