"""Tables: rows of a file, what their columns hold, and one text per row."""
