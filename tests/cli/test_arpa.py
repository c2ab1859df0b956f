"""`seqloom export arpa`: the file gives the probabilities of the run's model; wrong runs and files raise one line."""

import math
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import seqloom as package
from seqloom.cli.work.export import VISIBLE
from tests.cli.conftest import Seqloom
from tests.cli.test_bad_input import refused
from tests.training.running import tiny

pytestmark = pytest.mark.slow

COUNTED = ("model={kind: ngram, order: 3, context: 16}", "data.disjoint=true", "training.batches=1000")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("run") / "kn", *COUNTED).run.folder


def table(path: Path) -> dict[tuple[str, ...], tuple[float, float]]:
    rows = [line.split("\t") for line in path.read_text().splitlines() if "\t" in line]
    return {tuple(row[1].split(" ")): (float(row[0]), float(row[2]) if len(row) > 2 else 0.0) for row in rows}


def test_the_file_has_the_probabilities_of_the_model(counted: Path, tmp_path: Path, seqloom: Seqloom) -> None:
    answer = seqloom("export", "arpa", str(counted), "--out", str(tmp_path / "kn.arpa"))
    assert answer.code == 0
    assert "n-grams of up to 3 tokens" in answer.out
    written = table(tmp_path / "kn.arpa")
    model = package.load(counted)
    ids = model.tokenizer.encode("Once upon a time there was a fox.")
    names = tuple(model.tokenizer.names[id] for id in ids)

    def score(gram: tuple[str, ...]) -> float:
        if gram in written:
            return written[gram][0]
        return written.get(gram[:-1], (0, 0.0))[1] + score(gram[1:])

    log_p = model(torch.tensor([ids]))[0, :-1].gather(1, torch.tensor(ids)[1:, None])[:, 0] / math.log(10)
    backed = [score(names[max(at - 2, 0) : at + 1]) for at in range(1, len(names))]
    torch.testing.assert_close(log_p, torch.tensor(backed), rtol=0, atol=1e-5)


@pytest.mark.skipif(find_spec("kenlm") is None, reason="kenlm is not installed: pip install 'seqloom[kenlm]'")
def test_kenlm_reads_the_file_and_agrees(counted: Path, tmp_path: Path, seqloom: Seqloom) -> None:
    import kenlm

    assert seqloom("export", "arpa", str(counted), "--out", str(tmp_path / "kn.arpa")).code == 0
    model, peer = package.load(counted), kenlm.Model(str(tmp_path / "kn.arpa"))
    ids = model.tokenizer.encode("Once upon a time there was a fox, and a child that no one had seen.")
    text = " ".join(model.tokenizer.names[id].translate(VISIBLE) for id in ids)
    theirs = [log for log, _, _ in peer.full_scores(text, bos=False, eos=False)]
    assert peer.order == 3
    assert len(theirs) == len(ids)
    log_p = model(torch.tensor([ids]))[0, :-1].gather(1, torch.tensor(ids)[1:, None])[:, 0] / math.log(10)
    torch.testing.assert_close(log_p, torch.tensor(theirs)[1:], rtol=0, atol=1e-5)


def test_what_cannot_be_written_is_one_line(counted: Path, trained: Path, tmp_path: Path, seqloom: Seqloom) -> None:
    other = seqloom("export", "arpa", str(trained), "--out", str(tmp_path / "new.arpa"))
    refused(other)
    assert "a model of kind decoder: an ARPA file is of n-grams by kneser_ney" in other.err
    (tmp_path / "there.arpa").write_text("mine")
    there = seqloom("export", "arpa", str(counted), "--out", str(tmp_path / "there.arpa"))
    refused(there)
    assert "exists already" in there.err
    assert (tmp_path / "there.arpa").read_text() == "mine"
    (tmp_path / "link.arpa").symlink_to(tmp_path / "elsewhere")
    refused(seqloom("export", "arpa", str(counted), "--out", str(tmp_path / "link.arpa")))
    missing = seqloom("export", "arpa", str(counted), "--out", str(tmp_path / "no" / "folder.arpa"))
    refused(missing)
    assert "folder.arpa: No such file or directory" in missing.err
    assert not (tmp_path / "elsewhere").exists()


def test_a_model_without_layers_is_not_distilled(counted: Path, tmp_path: Path, seqloom: Seqloom) -> None:
    answer = seqloom("study", "poles", str(counted), "--order", "2", "--out", str(tmp_path / "poles"))
    refused(answer)
    assert "a model of kind ngram has no layers of mixers" in answer.err
