"""What layers hold of word senses: neighbours, clusters, and how much of a vector is the word's position."""
