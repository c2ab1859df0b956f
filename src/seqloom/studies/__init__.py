"""Studies: grids of trainings and measurements, run cell by cell and summarized from their rows."""
