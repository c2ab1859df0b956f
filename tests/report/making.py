"""A comparison as `seqloom compare` writes it, with invented constant numbers, for the tests of the report."""

import json
import math
import random
from pathlib import Path
from typing import Any

from seqloom.core.statistics import differences, mean_of
from seqloom.runs.rows import encode

KINDS = ["she", "attention", "aft", "rwkv", "lag_max", "performer"]
HEAVY = {"attention": "attention-heads=8"}
CONTEXT = 32
PROMPTS = ("Once upon a time", 'The "<old>" dog')
HOSTILE = "</script><b>bold</b>"
COLUMNS: list[tuple[str, str, str, str]] = [
    ("held-out loss", "nats a token", "lower", "Mean over the held-out tokens, and over the seeds."),
    ("± held-out", "nats a token", "", "Half of Student's 95% interval of the mean."),
    ("to baseline", "nats a token", "lower", "Held-out loss minus that of the baseline."),
    ("± to baseline", "nats a token", "", "Half of the 95% interval of that difference."),
    ("adjusted p", "", "", "That the difference is 0, by Holm over the table."),
    ("could settle", "nats a token", "", "The smallest difference that would have been significant."),
    ("bits a byte", "bits", "lower", "The held-out loss in bits, over the bytes of the text."),
    ("training loss", "nats a token", "lower", "Median over the last 250 batches."),
    ("parameters", "", "lower", "All weights, embeddings and head aside."),
    ("operations a token", "multiplications", "lower", "Of the forward equation, in the paper's conventions."),
    ("ms a step", "ms", "lower", "Median time of a training step in an interleaved race."),
    ("peak MB a step", "MB", "lower", "Most memory during a training step."),
    ("ms a generated token", "ms", "lower", "Median time of one generated token."),
    ("state bytes", "bytes", "lower", "What is kept between two generated tokens."),
]
GRAMMAR: list[tuple[str, str, str, str]] = [
    ("grammatical", "share", "higher", "Share of the written sentences that the grammar derives."),
    ("agreeing", "share", "higher", "Share of the written verbs that agree with their subject."),
]
WORDS = [
    "Once",
    " upon",
    " a",
    " time",
    ",",
    " there",
    " was",
    " the",
    " dog",
    " that",
    " saw",
    " “",
    "Käthe",
    "”",
    ".",
]
WORDS += [" <b>", "&amp;", ' "quoted"', " old", " \n", " house", " über", "", "", " 🐑"]


def comparison(
    out: Path, *, grammar: bool = True, seeds: int = 2, steps: int = 300, hostile: bool = False, timed: bool = True
) -> Path:
    """Writes comparison.json and the runs' rows into `out`; returns it."""
    draw = random.Random(0)
    contenders = [_contender(out, kind, at, draw, grammar, seeds, steps, timed) for at, kind in enumerate(KINDS)]
    matched = _contender(out, "aft", 6, draw, grammar, seeds, steps, timed, name="aft=she")
    matched |= {"matched_to": "she", "matched": "sized to she: ffn 512 → 448, parameters equal within 0.4%"}
    _compare([*contenders, matched])
    contenders = sorted([*contenders, matched], key=lambda each: each["row"]["held-out loss"])
    if hostile:
        contenders[2]["samples"][0]["tokens"][0][0] = HOSTILE
        contenders[3]["name"] = HOSTILE
    whole: dict[str, Any] = {
        "format": 2,
        "preset": "paper/small",
        "changes": [f"training.batches={steps}"],
        "seeds": seeds,
        "batches": steps,
        "batch": 64,
        "context": CONTEXT,
        "stretch": max(1, steps // 10),
        "baseline": HEAVY["attention"],
        "paired": False,
        "origin": {
            "date": "2026-11-21",
            "commit": "abc1234",
            "command": "seqloom compare she attention:heads=8 aft rwkv lag_max performer --seeds 2 --out runs/fair",
            "machine": "2-core x86_64, torch 2.13.0+cpu, 2 threads",
        },
        "text": {
            "description": "2,000 stories drawn from a grammar" if grammar else "100 documents of children's books",
            "identity": "sha256:9f2c51d7a0b34e68",
            "held_out_tokens": 430123,
            "held_out_documents": 5,
            "unigram": 6.1,
            "floor": 3.2 if grammar else None,
        },
        "columns": [
            dict(zip(("name", "unit", "better", "meaning"), column, strict=True))
            for column in COLUMNS + (GRAMMAR if grammar else [])
        ],
        "equal": "params",
        "contenders": contenders,
    }
    (out / "comparison.json").write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    return out


def _compare(contenders: list[dict[str, Any]]) -> None:
    """The differences to the baseline, as a comparison has them."""
    runs = {contender["name"]: dict(enumerate(contender["spread"]["held-out loss"])) for contender in contenders}
    result = differences(runs, dict.fromkeys(runs, HEAVY["attention"]))
    for contender in contenders:
        one = result.get(contender["name"])
        contender["row"] |= {
            "to baseline": one and one.estimate.mean,
            "± to baseline": one and one.estimate.half,
            "adjusted p": one and one.adjusted,
            "could settle": one and one.smallest,
        }


def _contender(
    out: Path,
    kind: str,
    at: int,
    draw: random.Random,
    grammar: bool,
    seeds: int,
    steps: int,
    timed: bool,
    name: str = "",
) -> dict[str, Any]:
    name = name or HEAVY.get(kind, kind)
    last = 4.1 + 0.07 * at
    finals = [round(last + 0.03 * draw.random(), 4) for _ in range(seeds)]
    loss = sum(finals) / seeds
    row: dict[str, Any] = {
        "held-out loss": loss,
        "± held-out": mean_of(finals).half,
        "bits a byte": loss / 2.9,
        "training loss": loss - 0.1,
        "parameters": 1_200_000 + 90_000 * (len(KINDS) - at),
        "operations a token": 5_000_000 * (len(KINDS) + 1 - at) ** 0.5,
        "ms a step": 40 * 1.3 ** (at * 4 % 7) if timed else None,
        "peak MB a step": 310.5 - 20 * (at * 5 % 7),
        "ms a generated token": 1.5 + 0.4 * ((at * 3) % 5),
        "state bytes": 1024 * 3 ** (at * 3 % 7),
        "grammatical": 0.93 - 0.05 * at,
        "agreeing": 0.88 - 0.02 * at if kind != "rwkv" else None,
    }
    for seed in range(seeds):
        _rows(out / name / f"seed-{seed}", last, finals[seed], steps, draw)
    return {
        "name": name,
        "kind": kind,
        "matched_to": None,
        "matched": None,
        "row": row if grammar else {key: row[key] for key in list(row)[:-2]},
        "spread": {"held-out loss": finals, "training loss": [final - 0.1 for final in finals]},
        "runs": [f"{name}/seed-{seed}" for seed in range(seeds)],
        "by_position": [
            [final - 0.15 + 1.6 / (position + 1) ** 0.8 + 0.02 * draw.random() for position in range(CONTEXT)]
            for final in finals
        ],
        "operations_a_batch": 1.0e10 * (len(KINDS) + 1 - at) ** 0.5,
        "tokens_a_batch": 2048,
        "seconds_a_batch": 0.04 * 1.3 ** (at * 4 % 7) if timed else None,
        "samples": [_sample(prompt, seed, draw) for prompt in PROMPTS for seed in (0, 1)],
        "views": _views(kind, draw),
    }


def _rows(folder: Path, last: float, final: float, steps: int, draw: random.Random) -> None:
    folder.mkdir(parents=True)
    lines = []
    for step in range(1, steps + 1):
        loss = last + 2.6 * math.exp(-step / (steps / 6)) + draw.gauss(0, 0.12)
        lines.append({"step": step, "loss": round(loss, 5), "seconds": 0.1, "compute": 0.09})
        if step in (steps // 3, 2 * steps // 3, steps):
            held = final + 2.6 * math.exp(-step / (steps / 6))
            lines.append({"step": step, "held_out": held if step < steps else final, "tokens": 430123})
    (folder / "metrics.jsonl").write_bytes(b"".join(encode(line) for line in lines))


def _sample(prompt: str, seed: int, draw: random.Random) -> dict[str, Any]:
    tokens = [[draw.choice(WORDS), round(draw.random() ** draw.choice([0.3, 1, 4]), 4)] for _ in range(60)]
    return {"prompt": prompt, "seed": seed, "tokens": tokens}


def _views(kind: str, draw: random.Random) -> list[dict[str, Any]]:
    if kind == "attention":
        labels = [WORDS[position % 15] for position in range(16)]
        return [_attention(layer, head, labels, draw) for layer in range(2) for head in range(2)]
    if kind == "rwkv":
        return [_line(layer) for layer in range(2)]
    if kind in ("she", "aft"):
        return [_taps(layer, draw, 0.5 if kind == "she" else 0.9) for layer in range(2)]
    return []


def _attention(layer: int, head: int, labels: list[str], draw: random.Random) -> dict[str, Any]:
    rows = []
    for query in range(len(labels)):
        weights = [draw.random() ** 3 if key <= query else 0.0 for key in range(len(labels))]
        rows.append([weight / sum(weights) for weight in weights])
    meaning = "How much of each key's value the query reads."
    view = {"layer": layer, "name": f"attention of head {head}", "meaning": meaning, "axes": ["query", "key"]}
    return view | {"values": rows, "signed": False, "labels": labels}


def _taps(layer: int, draw: random.Random, slow: float) -> dict[str, Any]:
    values = [[draw.gauss(0, 1) * math.exp(-lag * (1 - slow) / 2) for _ in range(24)] for lag in range(CONTEXT)]
    view = {"layer": layer, "name": "taps", "meaning": "The weight of the token that is so many places back."}
    return view | {"axes": ["lag", "channel"], "values": values, "signed": True, "labels": None}


def _line(layer: int) -> dict[str, Any]:
    values = [0.8**lag for lag in range(CONTEXT)]
    view = {"layer": layer, "name": "taps", "meaning": "The mean weight of the token that is so many places back."}
    return view | {"axes": ["lag"], "values": values, "signed": False, "labels": None}
