"""What every layer would predict: the logit lens and the tuned lens."""
