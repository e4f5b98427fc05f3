"""How well each layer interprets a word in its context, after Zhao et al. (2020)."""
