"""The page of the replication: the Extractor paper's claims against rows (docs/making/replication.py)."""
