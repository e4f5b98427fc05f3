"""Results gathered into one HTML page anyone can open."""

from __future__ import annotations

from lamina.report.making import ANALYSES, LEARNING, choose, make_report
from lamina.report.page import write_report

__all__ = ["ANALYSES", "LEARNING", "choose", "make_report", "write_report"]
