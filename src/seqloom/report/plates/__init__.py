"""A figure of the Extractor paper, or a control beside it, as a page: drawn from the rows in OUT/NAME.jsonl alone."""
