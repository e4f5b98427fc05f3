"""How decisions of probes come about from layer to layer."""
