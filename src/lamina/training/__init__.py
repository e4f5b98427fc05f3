"""Fine-tuning: heads, objectives and data, on transformers' Trainer."""
