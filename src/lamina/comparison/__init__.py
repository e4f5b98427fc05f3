"""Results of several models beside each other; what is comparable, the declaration of each analysis says."""
