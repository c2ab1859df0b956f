"""Early exits: classifiers on the layers of a run, thresholds for each layer, and their calibration."""
