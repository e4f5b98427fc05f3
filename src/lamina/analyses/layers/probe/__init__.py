"""Edge probing, step by step: inputs, planning, training, runs, statistics, summary, tables, findings."""
