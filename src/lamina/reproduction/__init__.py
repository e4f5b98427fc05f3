"""Published papers, run again: every setting in a request file, every published number in one file, one page each.

`papers/NAME.toml` are the request files, `published.toml` the numbers with their sources, `data.toml` the papers' own
data and what to put where.
"""

from lamina.reproduction.papers import Paper, PaperData, get_paper, paper_names
from lamina.reproduction.running import reproduce

__all__ = ["Paper", "PaperData", "get_paper", "paper_names", "reproduce"]
