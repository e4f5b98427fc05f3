"""What a language model says: how likely it finds texts, which of two sentences it prefers, what it fills in."""
