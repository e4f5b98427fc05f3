"""Results gathered into one HTML page anyone can open."""

from __future__ import annotations

from lamina.report.page import write_report
from lamina.report.report import choose, estimate_report, expand, find_report, make_report, named_apart

__all__ = ["choose", "estimate_report", "expand", "find_report", "make_report", "named_apart", "write_report"]
