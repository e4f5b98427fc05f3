"""Results gathered into one HTML page anyone can open."""

from __future__ import annotations

from lamina.report.making import ANALYSES, choose, make_report
from lamina.report.page import write_report
from lamina.report.plan import Plan, plan_report

__all__ = ["ANALYSES", "Plan", "choose", "make_report", "plan_report", "write_report"]
