"""The classifiers by kind: one file per kind, and one name below."""

from seqloom.depth.classifier import Classifier, ClassifierConfig, Kind
from seqloom.depth.learned import Learned

KINDS: dict[Kind, type[Classifier]] = {"learned": Learned}


def classifier(config: ClassifierConfig) -> Classifier:
    """A classifier of these settings, before training."""
    return KINDS[config.kind](config)
