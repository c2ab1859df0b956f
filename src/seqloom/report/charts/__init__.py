"""Charts: functions from rows to Vega-Lite specifications; interactive in a report, static SVG in the docs."""
