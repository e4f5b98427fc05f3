"""The questions: one module a question, plain functions returning `Result`."""

from lamina.analyses.asking import ask
from lamina.analyses.geometry import geometry

__all__ = ["ask", "geometry"]
