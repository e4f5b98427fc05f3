"""Results: tables with their provenance and findings; saved as folders, and found again.

result       tables of one analysis: saved, loaded, checked
provenance   where they came from
finding      one tested claim, and how it is worded
tables       CSV and Parquet files of a saved result
folder       its folder: what may replace it, what stopped runs leave beside it
index        all saved results in some folders
"""

from lamina.results.finding import Finding
from lamina.results.result import Provenance, Result

__all__ = ["Finding", "Provenance", "Result"]
