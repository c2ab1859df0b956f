"""What works inside of transformers and as a graph, for every mixer that streams: the table of docs/hf.md.

python -m tests.hf.matrix [KIND …]        prints the rows; for all mixers, minutes, it writes the table into the page
"""

import logging
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

import seqloom
import seqloom.hf
from seqloom.core.model import Model
from seqloom.export import trace_graphs, write_onnx, write_pt2
from seqloom.hf import SeqloomForCausalLM, state_cache
from tests.hf.streaming import CONTEXT, STREAMING, decoder_of, settings_of

PAGE = Path(__file__).parents[2] / "docs/hf.md"
BEGIN, END = "<!-- the table: python -m tests.hf.matrix -->", "<!-- the end of the table -->"
IDS = torch.tensor([[3, 7, 1, 9, 4, 8, 2], [5, 2, 2, 6, 30, 1, 9]])
BEYOND = CONTEXT + 4
"""new tokens, so that rings wrap"""
DECODING: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "temperature": 0.9, "top_p": 0.95},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
}
IN_ONNX = ("attention", "he", "we", "gated_delta", "mamba2", "rwkv7", "gla", "gru", "linear")
"""the mixers whose graphs are converted to ONNX; a window of attention is a setting of the first"""
TOKENS = 40
"""tokens that a graph's step reads"""
LENGTH = 12
"""tokens of a whole text that a graph reads, few, since tracing takes the time"""


def wrap(kind: str) -> SeqloomForCausalLM:
    """The decoder of this kind in its class of transformers."""
    wrapper = seqloom.hf.wrap(decoder_of(kind), pad_token_id=0)
    assert isinstance(wrapper, SeqloomForCausalLM)
    return wrapper


def new_tokens(model: Model, most: int = BEYOND) -> int:
    """As many as asked, or as the mixer's table of positions has room for."""
    longest = model.traits.longest
    return most if longest is None else min(most, longest - IDS.shape[1])


def write(wrapper: SeqloomForCausalLM, ids: torch.Tensor, count: int, **settings: Any) -> torch.Tensor:
    """What `generate` writes, from a seed."""
    settings.setdefault("attention_mask", torch.ones_like(ids))
    torch.manual_seed(1)
    tokens: torch.Tensor = wrapper.generate(ids, max_new_tokens=count, eos_token_id=None, **settings)
    return tokens


def check_saved(kind: str) -> None:
    """Logits of the loaded model are those of the saved one."""
    wrapper = wrap(kind)
    with tempfile.TemporaryDirectory() as folder:
        wrapper.save_pretrained(folder)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    torch.testing.assert_close(loaded(IDS).logits, wrapper.model(IDS), rtol=0, atol=1e-12)


def check_pieces(kind: str) -> None:
    """Logits by pieces with a cache are those of the whole."""
    wrapper = wrap(kind)
    whole, cache = wrapper(IDS).logits, state_cache(wrapper.model)
    pieces = [wrapper(piece, past_key_values=cache).logits for piece in IDS.split([3, 1, 1, 2], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-9)
    torch.testing.assert_close(wrapper(IDS, logits_to_keep=1).logits, whole[:, -1:], rtol=0, atol=1e-12)


def check_cached(decoding: str, kind: str) -> None:
    """`generate` writes the same tokens with the cache and without."""
    wrapper = wrap(kind)
    count = new_tokens(wrapper.model)
    cached = write(wrapper, IDS, count, use_cache=True, **DECODING[decoding])
    assert cached.shape[1] == IDS.shape[1] + count
    assert torch.equal(cached, write(wrapper, IDS, count, use_cache=False, **DECODING[decoding]))


def check_padding(kind: str) -> None:
    """Each row of a batch of unequal prompts, padded on the left, is written as alone."""
    wrapper = wrap(kind)
    mask = torch.ones_like(IDS)
    mask[0, :3] = 0
    count = new_tokens(wrapper.model, 12)
    padded = write(wrapper, IDS, count, attention_mask=mask)
    assert torch.equal(padded[0, 3:], write(wrapper, IDS[:1, 3:], count)[0])
    assert torch.equal(padded[1], write(wrapper, IDS[1:], count)[0])


def check_continued(kind: str) -> None:
    """A text that continues from its cache is the one that is written at once."""
    wrapper = wrap(kind)
    count, cache = new_tokens(wrapper.model, 12), state_cache(wrapper.model)
    first = write(wrapper, IDS, 4, past_key_values=cache)
    assert torch.equal(write(wrapper, first, count - 4, past_key_values=cache), write(wrapper, IDS, count))


def check_trained(kind: str) -> None:
    """The loss falls in 20 steps of the Trainer."""
    model = seqloom.decoder([settings_of(kind)], vocab=31, dim=16, depth=1, context=CONTEXT)
    wrapper = seqloom.hf.wrap(model, pad_token_id=0)
    rows = [{"input_ids": row, "labels": row} for row in (torch.arange(24) % 5 + offset for offset in range(8))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, max_steps=20, per_device_train_batch_size=4, learning_rate=1e-2, report_to=[],
            use_cpu=True, save_strategy="no", disable_tqdm=True, logging_steps=1,
        )  # fmt: skip
        trainer = transformers.Trainer(wrapper, arguments, train_dataset=rows, callbacks=[seqloom.hf.AfterUpdate()])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 20
    assert losses[-1] < losses[0] - 0.3


@torch.no_grad()
def check_archive(kind: str) -> None:
    """The archive of torch equals the model: a whole text, and tokens with the state fed back."""
    from torch.export.pt2_archive._package import load_pt2

    model = decoder_of(kind, depth=1)
    count = min(TOKENS, model.traits.longest or TOKENS)
    graphs = trace_graphs(model, LENGTH, count)
    with tempfile.TemporaryDirectory() as folder:
        (file,) = write_pt2(model, graphs, Path(folder, "model.pt2"))
        programs = load_pt2(str(file)).exported_programs
    ids = torch.randint(0, 31, (2, TOKENS), generator=torch.Generator().manual_seed(0))
    whole = programs["model"].module()(ids[:, : graphs.length])
    torch.testing.assert_close(whole, model(ids[:, : graphs.length]), rtol=0, atol=1e-9)
    start, step = programs["start"].module(), programs["step"].module()
    state, expected = start(ids[:, 0]), model.start(2)
    for t in range(count):
        logits, state = step(ids[:, t], state)
        wanted, expected = model.step(ids[:, t], expected)
        torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-9)


@torch.no_grad()
def check_onnx(kind: str) -> None:
    """The same of the files of ONNX, in float32."""
    import onnxruntime

    model = decoder_of(kind, depth=1).float()
    graphs = trace_graphs(model, LENGTH, TOKENS)
    ids = torch.randint(0, 31, (2, TOKENS), generator=torch.Generator().manual_seed(0))
    with tempfile.TemporaryDirectory() as folder:
        files = write_onnx(model, graphs, Path(folder, "model.onnx"))
        whole, start, step = (onnxruntime.InferenceSession(str(file)) for file in files)
        (logits,) = whole.run(None, {whole.get_inputs()[0].name: ids[:, : graphs.length].numpy()})
        torch.testing.assert_close(torch.tensor(logits), model(ids[:, : graphs.length]), rtol=1e-5, atol=1e-5)
        state, expected = start.run(None, {"ids": ids[:, 0].numpy()}), model.start(2)
        for t in range(TOKENS):
            logits, *state = step.run(None, {"ids": ids[:, t].numpy(), **dict(zip(graphs.state, state, strict=True))})
            wanted, expected = model.step(ids[:, t], expected)
            torch.testing.assert_close(torch.tensor(logits), wanted, rtol=1e-5, atol=1e-5)


CHECKS: dict[str, Callable[[str], None]] = {
    "saved": check_saved,
    "pieces": check_pieces,
    **{decoding: partial(check_cached, decoding) for decoding in DECODING},
    "padding": check_padding,
    "continued": check_continued,
}
SLOW_CHECKS = {"Trainer": check_trained, "pt2": check_archive, "ONNX": check_onnx}


def outcome(name: str, check: Callable[[str], None], kind: str) -> str:
    """`yes`, `no` where the results differ, the reason of a refusal, or nothing where it was not tried."""
    if name == "ONNX" and kind not in IN_ONNX:
        return ""
    try:
        check(kind)
    except AssertionError:
        return "no"
    except (ValueError, RuntimeError) as error:
        return str(error).splitlines()[0].replace("|", "/")[:160]
    return "yes"


def row_of(kind: str) -> str:
    """The row of a mixer."""
    cells = [outcome(name, check, kind) for name, check in (CHECKS | SLOW_CHECKS).items()]
    return f"| `{kind}` | {' | '.join(cells)} |"


def table(rows: list[str]) -> str:
    """The table of these rows."""
    head = ["mixer", *CHECKS, *SLOW_CHECKS]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows])


def write_table(rows: list[str]) -> None:
    """Puts the table between its marks in the page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}", encoding="utf-8")


def main(chosen: list[str]) -> None:
    """Prints the rows of these mixers; without any, of all, which are written into the page."""
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    transformers.utils.logging.disable_progress_bar()
    rows = []
    for kind in chosen or STREAMING:
        rows.append(row_of(kind))
        print(rows[-1], flush=True)
    if not chosen:
        write_table(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
