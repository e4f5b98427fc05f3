"""Edge probing: where in the network each linguistic ability lives."""
