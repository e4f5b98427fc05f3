"""How models grow: analyses asked at every checkpoint of a training."""
