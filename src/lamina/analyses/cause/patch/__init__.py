"""Put hidden states of one run into another."""
