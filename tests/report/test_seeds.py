"""Models with several seeds: their order and the sentence on what their numbers rest on."""

from seqloom.report.seeds import SeedRow, describe_seeds, rank_by_mean


class Trained(SeedRow):
    loss: float


def trained(source: str, mixer: str, seed: int, loss: float) -> Trained:
    origin = {"date": "2026-01-01", "commit": "c", "command": "seqloom", "machine": "m"}
    return Trained(source=source, mixer=mixer, seed=seed, loss=loss, **origin)


def test_the_lowest_mean_comes_first_within_each_source() -> None:
    rows = [
        trained("b", "he", 0, 0.1),
        trained("a", "he", 1, 3.0),
        trained("a", "gru", 0, 2.0),
        trained("a", "he", 0, 0.5),
    ]
    ranked = rank_by_mean(rows, lambda row: row.loss)
    assert [(row.source, row.mixer, row.seed) for row in ranked] == [
        *(("a", "he", 0), ("a", "he", 1), ("a", "gru", 0), ("b", "he", 0)),
    ]
    assert rank_by_mean(rows, lambda row: -row.loss)[0].mixer == "gru"


def test_one_run_is_said_to_be_one() -> None:
    assert describe_seeds(1) == "One run each: no difference can be called significant."
    assert describe_seeds(3) == "Means of 3 seeds."
