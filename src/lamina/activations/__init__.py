"""Encode once, keep, read: extraction, the store, engines."""

from lamina.activations.engines import Engine, ThisMachine
from lamina.activations.extraction import Estimate, estimate, extract
from lamina.activations.reading import StoredActivations
from lamina.activations.store import ActivationStore, default_root, stores, text_key

__all__ = [
    "ActivationStore",
    "Engine",
    "Estimate",
    "StoredActivations",
    "ThisMachine",
    "default_root",
    "estimate",
    "extract",
    "stores",
    "text_key",
]
