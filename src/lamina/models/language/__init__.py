"""Models with a language-model head: scores of texts, words for gaps, the logit lens."""
