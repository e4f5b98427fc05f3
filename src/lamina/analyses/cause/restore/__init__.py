"""Undo the fine-tuning of some layers."""
