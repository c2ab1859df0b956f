"""Small models trained on probes of recall: accuracy by distance."""
