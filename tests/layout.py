"""Where the tests of a source file are.

Of `seqloom/<folder>/x.py` in `tests/<folder>/test_x.py`, and a mixer's in `tests/mixers/test_<mixer>.py`. A folder
inside of a folder is one subject, as an op, the probes and the stories are: its files have tests of their own, or
`tests/<folder>/test_<inner folder>.py`. So is a study: `tests/studies/<study>/test_study.py`. Backends of an op are
compared with its reference by `tests/ops/test_registry.py`. What has no tests of its own is in `ELSEWHERE`.
"""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
ELSEWHERE = {
    "analysis/test_match": "analysis/sizes",
    "analysis/test_slopes": "analysis/claims",
    "analysis/test_tables": "analysis/formulas",
    "analysis/test_whole": "models/cost ops/fused/activations",
    "cli/test_app": "cli/__init__",
    "cli/test_broken_plugins": "core/error_text",
    "cli/test_compare": "cli/work/comparison",
    "cli/test_cost": "cli/work/cost_request cli/work/prices",
    "cli/test_demo": "studies/demo",
    "cli/test_evaluate": "cli/work/scores",
    "cli/test_generate": "cli/work/generation",
    "cli/test_interrupts": "training/signals",
    "cli/test_knn": "cli/work/retrieval",
    "cli/test_list_mixers": "cli/work/mixers",
    "cli/test_options": "studies/command",
    "cli/test_plan": "cli/work/footprint",
    "cli/test_registry": "cli/described",
    "cli/test_runs": "cli/work/run_health",
    "cli/test_time_limit": "training/loop training/session",
    "contract/test_arguments": "core/arguments",
    "contract/test_batches": "core/overlap",
    "contract/test_causal": "contracts/causality",
    "contract/test_cost": "contracts/price",
    "contract/test_keep": "contracts/padding",
    "contract/test_numbers": "contracts/numbers",
    "contract/test_reading": "contracts/reading core/mixer mixers/base",
    "contract/test_rows": "core/rows",
    "contract/test_views": "core/view",
    "contracts/test_gradients": "contracts/readings",
    "contracts/test_promises": (
        "contracts/__init__ contracts/finding contracts/maker contracts/subject contracts/target"
    ),
    "counting/test_count": "counting/kernels counting/own_kernels counting/pointwise counting/reductions",
    "counting/test_one_pass": "ops/fused/rms_norm",
    "data/test_corpora": "data/documents data/config data/split",
    "data/test_labels": "data/labelled data/learned_tokenizer",
    "data/test_merges": "data/merge_process",
    "data/test_pairs": "data/paired",
    "data/test_pieces": "data/seams",
    "data/test_encoding": "data/encoder",
    "data/test_prepare": "data/survey",
    "data/test_shards": "data/mapping",
    "data/test_tokenizer": "data/text_stream",
    "data/test_vectors": "cli/work/word_vectors training/vectors",
    "data/test_windows": "data/permutation",
    "data/test_words": "studies/eval_text",
    "data/test_wraps": "cli/work/survey",
    "depth/test_depth_adaptive": (
        "depth/classifier depth/geometric depth/kinds depth/multinomial depth/sequence training/exit_fitting"
    ),
    "depth/test_learned": "depth/store",
    "docs/test_stored_results": "report/stored",
    "export/test_graphs": "export/onnx export/pt2",
    "generation/test_batcher": "generation/requests",
    "generation/test_drafting": "generation/ahead",
    "generation/test_exits": "models/exits",
    "generation/test_modes": "generation/draws",
    "hf/test_causal_lm": "hf/after_update hf/cache hf/config hf/generation hf/pretrained hf/register",
    "hf/test_evaluate_tasks": "cli/work/tasks",
    "hf/test_export": "cli/export cli/work/export hf/masked_lm hf/sequence_classification",
    "hf/test_lora": "cli/work/fine_tuning runs/adapters training/lora",
    "hf/test_swap": "hf/load hf/strict models/take_over models/attention_layers",
    "mixers/test_adaptive_span": "mixers/cached_heads",
    "mixers/test_aft": "ops/past/limit",
    "mixers/test_attention": "mixers/heads ops/past/cache",
    "mixers/test_bidirectional": "mixers/whole_average",
    "mixers/test_both_ways": "mixers/composed",
    "mixers/test_build": "core/layer mixers/__init__",
    "mixers/test_compressive": "mixers/compression ops/past/compressed_past ops/past/past_inputs",
    "mixers/test_gated_delta": "layers/head_norm mixers/delta_heads layers/short_convolution",
    "mixers/test_kda": "mixers/delta_channels",
    "mixers/test_lightweight_conv": "ops/fused/gated_unit mixers/convolution/dynamic_conv",
    "mixers/test_layer_kind": "mixers/layer_arguments mixers/layer_mixer mixers/layer_price mixers/layer_probe",
    "mixers/test_linear": "layers/feature_maps",
    "mixers/test_linformer": "ops/past/stretches",
    "mixers/test_patterned": "mixers/attention/blockwise mixers/attention/image mixers/named_patterns",
    "mixers/test_plugins": "core/registry",
    "mixers/test_reformer": "mixers/bucketed",
    "mixers/test_rglru": "layers/block_linear",
    "mixers/test_sinkhorn": "mixers/sorted_past mixers/sorter ops/bucketing/sinkhorn/* core/row_draws",
    "models/foreign/test_families": "models/foreign/*",
    "models/test_block": "models/config models/norm models/parallel models/post_norm",
    "models/test_decision": "evaluation/playing models/decision_config cli/work/episodes",
    "models/test_ffn_kinds": "core/feed_forward models/ffn_sublayer",
    "models/test_gates": "models/gated",
    "models/test_handing": "mixers/cross_layer models/cross_layer",
    "models/test_int8": "layers/int8_linear",
    "models/test_loss": "models/head",
    "models/test_ngram": "models/counted",
    "models/test_options": "models/decoder models/embedding models/output_norm models/attention_layers",
    "models/test_reading": "models/arguments models/loop models/transformer",
    "models/test_regressor": "models/number_reader models/regressor_config",
    "models/test_seq2seq": "generation/translation models/cross_attention models/translator models/translator_config",
    "models/test_spalm": "core/lookup",
    "models/test_swap": "analysis/swap_plan cli/swap cli/work/swap",
    "models/test_tensors": "core/layered",
    "models/test_token_checks": "core/guards",
    "models/test_universal": "models/halting core/model",
    "models/test_universal_seq2seq": "models/source_block",
    "ops/test_backends": "ops/__init__",
    "ops/test_native_forms": "ops/kernel",
    "ops/test_projection": "layers/linear",
    "ops/test_registry": "ops/op ops/bucketing/* ops/fixed/*/* ops/fused/gated_decay/* ops/fused/small_blocks/*",
    "ops/test_scans": "ops/scan/*",
    "ops/test_triton": "ops/gpu",
    "play/test_app": "play/column play/completion play/engine play/errors play/guard play/texts play/v1 play/writing",
    "play/test_library": "cli/play cli/watch play/live play/serve",
    "positions/test_each_position": "positions/*",
    "positions/test_positions": "core/position",
    "report/test_answer": "report/comparison",
    "report/test_many": "report/tradeoffs",
    "report/test_needs": "report/measured",
    "report/test_page": "report/html report/inside report/table",
    "report/test_read": "report/origin",
    "report/test_stages": "report/losses",
    "retrieval/test_followed": "retrieval/progress",
    "retrieval/test_knn": "evaluation/reading evaluation/tuning retrieval/neighbors",
    "runs/test_checkpoint": "runs/steps runs/tensors",
    "runs/test_code": "runs/module_source runs/notebook_source",
    "runs/test_damage": "runs/manifest",
    "runs/test_metrics": "runs/rows",
    "studies/paper/test_rows": "studies/plan",
    "studies/recall/test_study": "evaluation/answers studies/probe_cell studies/recall",
    "studies/test_all_mixers": "studies/limitations",
    "studies/test_bench": "cli/bench cli/work/bench studies/timed_functions",
    "studies/test_candidates": "studies/candidate studies/race",
    "studies/test_decoding": "studies/latency studies/long_context",
    "studies/test_installed": "cli/study",
    "studies/test_match_time": "data/random_texts",
    "studies/test_odd_rows": "report/results",
    "studies/test_pages": "cli/report",
    "studies/test_study": "studies/runner studies/results",
    "studies/test_summary": "studies/columns studies/candidate_cell studies/candidate_values studies/samples",
    "studies/test_workers": "studies/cluster studies/processes studies/perform",
    "test_face": "face/build face/mixers face/models",
    "tour/test_page": "tour/content",
    "training/test_beginning": "training/initial_weights",
    "training/test_carried": "data/segments",
    "training/test_compiled": "training/compilable",
    "training/test_distilling": (
        "analysis/distill_plan cli/distill cli/work/distill evaluation/needed_attention face/distilling "
        "models/stand_ins models/switched training/distillation"
    ),
    "training/test_distributed": "training/failures training/group",
    "training/test_extras": "core/extras",
    "training/test_hostile": "runs/about",
    "training/test_identity": "runs/model",
    "training/test_objectives": "core/objective",
    "training/test_optimizers": "training/muon",
    "training/test_recipes": "core/model_config models/kinds training/settings training/preset training/config",
    "training/test_refusals": "training/drift",
    "training/test_routing": "core/roles",
    "training/test_rows": "training/train",
    "training/test_sharding": "core/divided",
    "training/test_spalm_runs": "retrieval/building retrieval/lookup training/neighbors",
    "training/test_stages": "training/preparation",
    "training/test_step": "training/capturable",
    "training/test_stretches": "models/wavefront training/mesh training/relay",
    "training/test_throughput": "analysis/peaks",
}
"""By test: the sources without tests of their own, because what they do shows in the results that this one compares.

Without `.py`, with spaces between.
"""


def sources() -> Iterator[Path]:
    """Every file under src/ with a public function or class, without src/."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        nodes = ast.parse(path.read_text(encoding="utf-8")).body
        if any(isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_" for node in nodes):
            yield path.relative_to(ROOT / "src")


def places(source: Path) -> list[Path]:
    """The files in which the tests of a source may be, without tests/."""
    package, *folders, _ = source.parts
    name = source.stem if source.stem != "__init__" or not folders else folders.pop()
    if package == "seqloom_studies":
        return [Path("studies", *folders, f"test_{each}.py") for each in (name, "study", "command")]
    if not folders:
        return [Path(f"test_{name}.py"), Path(name, f"test_{name}.py")]
    room, *inner = folders
    names = [name, *inner] if room != "mixers" else [name]
    return [Path(*folder, f"test_{each}.py") for folder in (folders, [room]) for each in names]


def elsewhere(source: Path | str) -> list[str]:
    """The patterns of `ELSEWHERE` that fit a source of `seqloom`."""
    patterns = (pattern for group in ELSEWHERE.values() for pattern in group.split())
    return [pattern for pattern in patterns if fnmatch(str(source), f"seqloom/{pattern}.py")]


def has_tests(source: Path) -> bool:
    """Whether a source has a file of tests of its own, or of its subject."""
    return any((TESTS / place).exists() for place in places(source))


def defined_tests(path: Path) -> list[str]:
    """The test functions that a file defines."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
