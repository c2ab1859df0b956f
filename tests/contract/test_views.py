"""The views of a mixer are arrays with named axes, and computing them changes nothing."""

import torch

from seqloom.mixers import mixer_config
from tests.contract.cases import DIM, Make, copied, draw, every_mixer, fits, untouched


def check_views(make: Make) -> None:
    """Promise 13: views have names of their own, an axis a dimension, finite numbers, and are of the first row."""
    mixer = make()
    x = draw(2, fits(mixer, 6), DIM)
    before = copied(mixer.state_dict())
    with torch.no_grad():
        views = mixer.plots(x)
        alone = mixer.plots(x[:1])
    untouched(mixer.state_dict(), before)
    assert len({view.name for view in views}) == len(views), "two views share a name"
    assert len(alone) == len(views)
    for view, same in zip(views, alone, strict=True):
        assert all((view.name, view.meaning)), "a view needs a name and a meaning"
        assert 1 <= view.values.ndim == len(view.axes) <= 2, f"{view.name}: {view.values.ndim} axes, named {view.axes}"
        assert bool(view.values.isfinite().all()), f"{view.name} is not finite"
        assert torch.allclose(view.values, same.values, atol=1e-12), f"{view.name} depends on the other rows"


@every_mixer
def test_views(make: Make) -> None:
    check_views(make)


def test_attention_shows_its_weights() -> None:
    mixer = mixer_config({"kind": "attention", "heads": 2}).build(8, 4).double()
    x = draw(1, 7, 8)
    with torch.no_grad():
        mean, *heads = (view.values for view in mixer.plots(x))
        value = mixer.w_qkv(x)[0].chunk(3, -1)[2].view(7, 2, 4)
        y = mixer.w_out(torch.cat([a @ value[:, h] for h, a in enumerate(heads)], -1))
        assert torch.allclose(y, mixer(x)[0], atol=1e-12), "the weights are not those that it reads with"
    assert torch.allclose(mean, (heads[0] + heads[1]) / 2)
    for a in heads:
        assert torch.allclose(a.sum(1), torch.ones(7).double())
        assert torch.equal(a, a.tril().triu(-3)), "weights outside the window"


def test_an_extractor_shows_its_taps() -> None:
    x = draw(1, 3, 8)
    shown = {
        kind: mixer_config({"kind": kind, **more}).build(8, 5).double()
        for kind, more in (("me", {}), ("we", {}), ("she", {"groups": 2}))
    }
    views = {kind: mixer.plots(x)[0].values for kind, mixer in shown.items()}
    assert torch.equal(views["me"], shown["me"].w_ext)
    assert torch.equal(views["we"], shown["we"].w_ext)
    matrix = shown["she"].w_ext[3, 1]  # lag 3, channels 4 to 7
    assert torch.allclose(views["she"][3, 4:], (matrix**2).mean(0).sqrt())
