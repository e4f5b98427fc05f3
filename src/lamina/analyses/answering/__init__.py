"""How a model answers questions: one example token by token, and a whole data set as numbers."""
