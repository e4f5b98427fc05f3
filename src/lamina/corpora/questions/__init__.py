"""Questions with their contexts: what a question is, the sets of them, and how they are shown to a model."""
