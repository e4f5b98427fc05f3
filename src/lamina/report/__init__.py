"""Results gathered into one HTML page anyone can open."""

from __future__ import annotations

from lamina.report.making import choose, estimate_report, expand, find_report, make_report, named_apart
from lamina.report.page import write_report

__all__ = ["choose", "estimate_report", "expand", "find_report", "make_report", "named_apart", "write_report"]
