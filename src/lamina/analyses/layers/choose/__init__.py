"""Which layer of which model, for a user's labels."""
