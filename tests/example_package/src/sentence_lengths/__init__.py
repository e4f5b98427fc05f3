"""How long sentences are."""
