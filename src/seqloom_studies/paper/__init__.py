"""The replication of the Extractor paper: its figures and tables, and controls that it does not have."""
