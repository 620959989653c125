"""Reports as one HTML file with pictures in it: nothing is loaded from elsewhere, so it can be mailed and kept."""

from pyromq.cli.report.page import Report
from pyromq.cli.report.plots import bars, lines

__all__ = ["Report", "bars", "lines"]
