"""The page of a study of `seqloom paper`: drawn from the rows in OUT/NAME.jsonl alone."""
