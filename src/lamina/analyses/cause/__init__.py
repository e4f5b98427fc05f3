"""Does a model use what it knows? Parts are taken away, put back or exchanged, and what the model does is measured."""
