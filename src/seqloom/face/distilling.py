"""`seqloom.distill`: a model whose attention is distilled into other mixers."""

from pathlib import Path
from typing import Any

from seqloom.core.arguments import describe_value
from seqloom.core.model import Model
from seqloom.core.progress import Show, show_nothing
from seqloom.face.models import load, save
from seqloom.training.distillation import Distillation
from seqloom.training.distilling import Distilled
from seqloom.training.distilling import distill as distill_folder


def distill(
    model: Model | str | Path,
    *,
    to: str,
    data: str,
    keep_attention: str = "25%",
    out: str | Path = "runs/distilled",
    baselines: bool = False,
    show: Show = show_nothing,
    **settings: Any,
) -> Distilled:
    """Replaces attention by the mixer `to` and trains that to compute what attention did, on a text.

    `model` is one of seqloom with its tokenizer, or the folder of a run or of transformers. `keep_attention` names the
    layers that keep it: numbers as "3,7", a share as "25%", or "auto:25%". `settings` are tokens, batch, context, rate,
    temperature, seed and held_out, as of `seqloom distill`. The student is the run in `out`, and the same call
    continues it. What is returned has `rows`, losses next to those it is compared with, and `outcome.model`.

    Raises TypeError for another model, and ValueError, in one line, for what does not fit.
    """
    out = Path(out)
    if isinstance(model, Model):
        teacher = out / "teacher"
        if not (teacher / "config.json").exists():
            save(model, teacher)
    elif isinstance(model, str | Path):
        teacher = Path(model)
    else:
        raise TypeError(f"model is one of seqloom, or a folder, not {describe_value(model)}")
    asked = Distillation(teacher=teacher, out=out, to=to, data=data, keep=keep_attention, **settings)
    found = distill_folder(asked, baselines=baselines, say=lambda line: None, show=show)
    found.outcome.model.tokenizer = load(out).tokenizer
    return found
