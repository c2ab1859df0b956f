"""Figures as SVG text, for print, export and readers without JavaScript."""

from seqloom.report.figures.axes import Axis
from seqloom.report.figures.heat import heat
from seqloom.report.figures.lines import Level, Series, lines
from seqloom.report.figures.palette import css
from seqloom.report.figures.pareto import front
from seqloom.report.figures.points import Point, points
from seqloom.report.figures.standalone import standalone

__all__ = ["Axis", "Level", "Point", "Series", "css", "front", "heat", "lines", "points", "standalone"]
