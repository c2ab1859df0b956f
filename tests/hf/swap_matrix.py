"""What works where attention is replaced, for every family and every mixer: the table of docs/swap.md, made by running.

python -m tests.hf.swap_matrix        tens of minutes; writes the table between its marks
"""

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

import seqloom
import seqloom.hf
from seqloom.hf.swap.families import FAMILIES
from seqloom.mixers import kinds
from tests.hf.swapping import CAUSAL, IDS, WHOLE, inputs_of, model_of, write

PAGE = Path(__file__).parents[2] / "docs/swap.md"
BEGIN, END = "<!-- the table: python -m tests.hf.swap_matrix -->", "<!-- the end of the table -->"
LAYERS = (1, 2)
NEW = 8
"""tokens that are written"""
ALL = "yes"
REFUSALS = {
    "bidirectional": "only bidirectional",
    "does not stream": "does not stream",
    "to the loss": "adds to the loss",
}
"""words of an error, and what the table says"""
FAMILY_COLUMNS = (*CAUSAL, *WHOLE)


def outcome(family: str, kind: str) -> str:
    """`yes` where everything works; what fails; or why the swap is refused."""
    try:
        model = seqloom.swap(model_of(family), dict.fromkeys(LAYERS, _settings(kind)))
    except ValueError as error:
        return _refusal(str(error))
    failed = [name for name, check in _checks(family) if not _holds(check, model, family)]
    return ALL if not failed else f"not {', '.join(failed)}"


def _settings(kind: str) -> Any:
    """The kind alone, as a user gives it; its first example where it does not fit the small models."""
    example = kinds()[kind].examples[0]
    return {"kind": kind, **example} if kind == "linformer" else kind


def _refusal(message: str) -> str:
    found = next((words for part, words in REFUSALS.items() if part in message), None)
    return found or f"refused: {message}"


def _holds(check: Callable[[Any, str], bool], model: Any, family: str) -> bool:
    try:
        return check(model, family)
    except (ValueError, RuntimeError):
        return False


def _checks(family: str) -> Iterator[tuple[str, Callable[[Any, str], bool]]]:
    yield "gradients", _has_gradients
    yield "saved", _is_saved
    if family in CAUSAL:
        yield "greedy", _is_cached
        yield "beams", _beams_are_cached
        yield "padding", _pads
    elif family != "vit":
        yield "padding", _pads_on_the_right


def _has_gradients(model: Any, family: str) -> bool:
    logits = model(**inputs_of(family)).logits
    logits.square().sum().backward()
    gradients = [parameter.grad for name, parameter in model.named_parameters() if ".mixer." in name]
    model.zero_grad()
    return all(gradient is None or bool(gradient.isfinite().all()) for gradient in gradients)


def _is_saved(model: Any, family: str) -> bool:
    inputs = inputs_of(family)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = seqloom.hf.load(folder, dtype=torch.float64)
    return torch.allclose(loaded(**inputs).logits, model(**inputs).logits, rtol=0, atol=1e-12)


def _is_cached(model: Any, family: str, **decoding: Any) -> bool:
    cached = write(model, IDS, NEW, use_cache=True, **decoding)
    return torch.equal(cached, write(model, IDS, NEW, use_cache=False, **decoding))


def _beams_are_cached(model: Any, family: str) -> bool:
    return _is_cached(model, family, num_beams=3, num_return_sequences=2)


def _pads(model: Any, family: str) -> bool:
    mask = torch.ones_like(IDS)
    mask[0, :3] = 0
    return torch.equal(write(model, IDS, NEW, attention_mask=mask)[0, 3:], write(model, IDS[:1, 3:], NEW)[0])


def _pads_on_the_right(model: Any, family: str) -> bool:
    alone = {name: tensor[:1] for name, tensor in inputs_of(family).items()}
    padded = {name: torch.nn.functional.pad(tensor, (0, 3)) for name, tensor in alone.items()}
    decoder = alone.get("decoder_input_ids")
    if decoder is not None:
        padded["decoder_input_ids"] = decoder
    expected = model(**alone).logits
    return torch.allclose(model(**padded).logits[:, : expected.shape[1]], expected, rtol=0, atol=1e-6)


def taken_over(kind: str) -> str:
    """The matrices that a mixer takes over from Llama's attention, in short."""
    model, swaps = model_of("llama"), []
    for init in ("fresh", "projections"):
        torch.manual_seed(0)
        try:
            swaps.append(seqloom.swap(model, {1: _settings(kind)}, init=init))
        except ValueError:
            return "-"
    drawn, copied = swaps
    pairs = zip(drawn.named_parameters(), copied.parameters(), strict=True)
    names = [name.split(".mixer.")[1] for (name, old), new in pairs if ".mixer." in name and not torch.equal(old, new)]
    return ", ".join(f"`{name.removesuffix('.weight')}`" for name in names) or "-"


def table() -> str:
    """The table, a row for each mixer, with a column for each group of families that agree throughout."""
    rows = {}
    for kind in kinds():
        rows[kind] = {family: outcome(family, kind) for family in FAMILY_COLUMNS}
        print(kind, rows[kind], flush=True)
    groups = _alike(rows)
    head = ["mixer", *(", ".join(group) for group in groups), "taken over from Llama"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for kind, row in rows.items():
        cells = [f"`{kind}`", *(row[group[0]] for group in groups), taken_over(kind)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _alike(rows: dict[str, dict[str, str]]) -> list[list[str]]:
    """The families, those together for which every mixer has the same outcome."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for family in FAMILY_COLUMNS:
        groups.setdefault(tuple(row[family] for row in rows.values()), []).append(family)
    return list(groups.values())


def main() -> None:
    """Writes the table into the page."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    assert set(FAMILY_COLUMNS) == set(FAMILIES)
    found = table()
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{found}\n{END}{after}")


if __name__ == "__main__":
    main()
