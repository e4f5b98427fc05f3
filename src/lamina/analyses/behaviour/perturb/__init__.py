"""Score a model on perturbed input."""
