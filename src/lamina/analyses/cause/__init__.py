"""Does a model use what it knows? Parts are ablated, restored or exchanged, and what the model does is measured."""
