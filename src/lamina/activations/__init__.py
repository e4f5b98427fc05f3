"""Encode once, store, read: extraction, the store, engines."""

from lamina.activations.extraction import EncodingCost, Engine, ThisMachine, estimate, extract
from lamina.activations.in_memory import ResidentActivations
from lamina.activations.reading import ReadActivations, StoredActivations
from lamina.activations.runtime import Runtime
from lamina.activations.store import ActivationStore, default_root, problems, stores

__all__ = [
    "ActivationStore",
    "EncodingCost",
    "Engine",
    "ReadActivations",
    "ResidentActivations",
    "Runtime",
    "StoredActivations",
    "ThisMachine",
    "default_root",
    "estimate",
    "extract",
    "problems",
    "stores",
]
