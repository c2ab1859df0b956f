"""Classifiers of patches of pictures: the share of right labels, against chance."""
