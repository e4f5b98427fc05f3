"""What a language model predicts in a gap: diagnostics, facts and clozes."""
