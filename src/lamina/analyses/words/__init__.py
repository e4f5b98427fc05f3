"""What layers hold of single words: classes in context, nearest words, senses, and how far context reaches."""
