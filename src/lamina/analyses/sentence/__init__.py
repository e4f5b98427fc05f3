"""One sentence that somebody types: what every layer and head makes of one of its words."""
