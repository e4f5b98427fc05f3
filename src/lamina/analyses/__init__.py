"""The questions: one module a question, plain functions returning `Result`."""

from lamina.analyses.asking import ask
from lamina.analyses.compare import compare
from lamina.analyses.geometry import geometry
from lamina.analyses.probing.probe import probe
from lamina.analyses.probing.splits import load_splits

__all__ = ["ask", "compare", "geometry", "load_splits", "probe"]
