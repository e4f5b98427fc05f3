"""What a model can be asked for, scored item by item: loss, minimal pairs, answers, labels, probes, links."""
