"""What an analysis is made of: how it is declared, given its inputs, run, cached, estimated and verified."""
