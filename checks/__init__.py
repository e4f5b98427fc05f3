"""What `make lint` checks beside style and types: names and words."""
