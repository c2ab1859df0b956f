"""Trainings with mistakes: see `bad_commands` for the parts of a case."""

Case = tuple[str, list[str], tuple[str, ...]]


def trains(name: str, setting: str, *words: str) -> Case:
    """A setting that training refuses."""
    return f"train-{name}", ["train", "tiny", "--out", "new", "--set", setting], words


def reads(name: str, source: str, *words: str) -> Case:
    """A source that training refuses."""
    return f"data-{name}", ["train", "tiny", "--out", "new", "--set", "data.vocab=257", "--data", source], words


def translates(name: str, setting: str, *words: str) -> Case:
    """A setting, or pairs, that the training of an encoder-decoder refuses."""
    return f"seq2seq-{name}", ["train", "seq2seq/dates", "--out", "new", "--set", setting], words


PAIRS = [
    translates("one-column", "data.source={shelf}/pairs.tsv", "pairs.tsv, line 2: one column", "separated by a tab"),
    translates("long", "model.context=12", "has 18 tokens with its end", "above model.context=12", "raise it to"),
    translates("unknown", "data.source=pairs:dats", "unknown kind of pairs 'dats'", "did you mean 'dates'"),
    translates("many", "data.source=pairs:dates:999999", "146,097 pairs", "ask for fewer"),
    translates("text", "data.source=stories:20", "pairs come from a .tsv file"),
    translates("decoder", "model.mixer.kind=fnet", "fnet is bidirectional", "a decoder cannot use it"),
    translates("encoder", "model.encoder.mixer.kind=mamb", "model.encoder", "unknown mixer 'mamb'", "'mamba'"),
    translates("cross", "model.cross.heads=5", "cross.heads=5", "divide dim"),
    translates("objective", "training.objective.kind=next_token", "choose training.objective.kind=pairs"),
    translates("channel", "model.channel=none", "kind ffn, not none"),
]

SETTINGS = [
    trains("no-sign", "training.lr", "--set needs name=value", "training.lr"),
    trains("no-name", "=3", "--set needs name=value"),
    trains("vocab", "model.vocab=5", "set data.vocab"),
    trains("model-number", "model=3", "model", "not 3"),
    trains("below-a-number", "model.dim.x=3", "model.dim is 32", "'x'"),
    trains("lr-word", "training.lr=fast", "training.lr", "number", "'fast'"),
    trains("lr-letter", "training.lr=1O", "training.lr", "'1O'"),
    trains("lr-negative", "training.lr=-1", "training.lr", "greater than 0", "-1"),
    trains("lr-nan", "training.lr=.nan", "training.lr", "finite"),
    trains("lr-inf", "training.lr=.inf", "training.lr", "finite"),
    trains("lr-nothing", "training.lr=", "training.lr", "number"),
    trains("setting", "training.evalate_every=1", "unknown setting", "did you mean 'evaluate_every'"),
    trains("section", "trainin.lr=1", "unknown setting 'trainin'", "did you mean 'training'"),
    trains("yaml", "model.mixer={", "not readable YAML"),
    trains("mixer", "model.mixer.kind=shee", "unknown mixer 'shee'", "did you mean 'she'"),
    trains("mixer-number", "model.mixer.kind=3", "unknown mixer 3", "such as active_memory, "),
    trains("mixer-list-kind", "model.mixer.kind=[she]", "unknown mixer"),
    trains("mixer-word", "model.mixer=she", "model.mixer", "{kind: she}"),
    trains("mixer-setting", "model.mixer.group=2", "unknown setting", "did you mean 'groups'"),
    trains("mixer-of-another", "model.mixer.heads=2", "unknown setting 'heads'", "groups"),
    trains("mixers-none", "model.mixer=[]", "list of mixers is empty"),
    trains("mixers-kindless", "model.mixer=[{heads: 2}]", "needs a kind", "attention"),
    trains("mixers-typo", "model.mixer=[{kind: she}, {kind: atention}]", "did you mean 'attention'"),
    trains("heads", "model.mixer={kind: attention, heads: 5}", "dim 32", "heads 5", "1, 2, 4, 8, 16, 32"),
    trains("clusters", "model.mixer={kind: routing, clusters: 40}", "40 clusters are more than the 16 tokens", "fewer"),
    trains("buckets-odd", "model.mixer={kind: reformer, buckets: 5}", "an even number", "not 5"),
    trains("rounds-none", "model.mixer={kind: reformer, rounds: 0}", "rounds", "greater than or equal to 1"),
    trains("span-none", "model.mixer={kind: adaptive_span, span: 0}", "span", "greater than or equal to 1"),
    trains("linformer-causal", "model.mixer.kind=linformer", "a decoder cannot use it", "nearest kind", "linear"),
    trains("fnet-causal", "model.mixer.kind=fnet", "a decoder cannot use it", "nearest kind"),
    (
        "train-masked-alone",
        ["train", "encoder/small", "--out", "new", "--set", "model.context=1"],
        ("masked_token needs model.context=2 or more, not 1",),
    ),
    (
        "train-landmarks",
        ["train", "encoder/small", "--out", "new", "--set", "model.mixer={kind: linformer, k: 999}"],
        ("999 landmarks of", "choose a k of at most the context"),
    ),
    trains("chunk-none", "model.ffn_chunk=0", "model.ffn.chunk", "greater than or equal to 1"),
    trains("groups", "model.mixer.groups=5", "dim 32", "groups 5"),
    trains("groups-zero", "model.mixer.groups=0", "groups", "greater than or equal to 1"),
    trains("groups-negative", "model.mixer={kind: extractor, groups: -1}", "groups -1"),
    trains("dim-zero", "model.dim=0", "model.dim", "greater than or equal to 1"),
    trains("dim-negative", "model.dim=-4", "model.dim", "-4"),
    trains("dim-fraction", "model.dim=3.5", "model.dim", "3.5"),
    trains("depth-zero", "model.depth=0", "model.depth"),
    trains("context-zero", "model.context=0", "model.context"),
    trains("dropout", "model.dropout=1", "model.dropout", "less than 1"),
    trains("position", "model.position=learnt", "'learned'", "'learnt'"),
    trains("batch-zero", "training.batch=0", "training.batch"),
    trains("batches-zero", "training.batches=0", "training.batches"),
    trains("accumulate", "training.accumulate=3", "batch 4", "accumulate 3"),
    trains("betas", "training.betas=[0.9, 1.0]", "training.betas", "[0, 1)"),
    trains("betas-one", "training.betas=[0.9]", "training.betas"),
    trains("precision", "training.precision=fp16", "'float32', 'tf32', 'bf16', 'float64' or 'auto'", "'fp16'"),
    trains("device", "training.device=gpu", "no device 'gpu'", "use cpu or auto"),
    trains("device-absent", "training.device=cuda:99", "no device 'cuda:99'", "use cpu or auto"),
    trains("device-meta", "training.device=meta", "no device 'meta'", "use cpu or auto"),
    trains("seed", "training.seed=-1", "training.seed"),
    trains("schedule", "training.schedule.kind=cosin", "unknown training.schedule 'cosin'", "did you mean 'cosine'"),
    trains("schedule-number", "training.schedule.kind=3", "unknown training.schedule '3'", "there is constant, cosine"),
    trains("schedule-word", "training.schedule=cosine", "training.schedule", "such as {kind: constant}", "'cosine'"),
    trains("schedule-kindless", "training.schedule.warmup=3", "training.schedule needs a kind", "constant, cosine"),
    trains("schedule-typo", "training.schedule={kind: wsd, dcay: 0.1}", "'training.schedule.dcay'", "'decay'"),
    trains("schedule-value", "training.schedule={kind: wsd, decay: 0}", "training.schedule.decay: ", "greater than 0"),
    trains("warm-up", "training.schedule={kind: cosine, warmup: 21}", "a warm-up of 21", "longer than the run of 20"),
    trains("warm-up-noam", "training.schedule.kind=noam", "a warm-up of 4,000", "training.schedule.warmup"),
    trains("wsd", "training.schedule={kind: wsd, warmup: 18}", "warm-up of 18", "decay over 4", "the run of 20"),
    trains("optimizer", "training.optimizer=adam", "training.optimizer", "'adamw' or 'muon'", "'adam'"),
    trains("stages-word", "training.stages=long", "training.stages", "valid tuple"),
    trains("stages-typo", "training.stages=[{batches: 3, windw: 4}]", "windw", "did you mean 'window'"),
    trains("stages-batches", "training.stages=[{window: 4}]", "training.stages.0.batches", "missing"),
    trains("stages-none", "training.stages=[{batches: 0}]", "training.stages.0.batches", "greater than or equal to 1"),
    trains(
        "stages-window",
        "training.stages=[{batches: 3, window: 4}]",
        "she has no window that training.stages could change",
    ),
    trains("op", "backends.lagsum=direct", "unknown op 'lagsum'", "did you mean 'lag_sum'"),
    trains("backend", "backends.lag_sum=dirct", "no backend 'dirct'", "did you mean 'direct'"),
    trains("format", "format=2", "format"),
    trains("vocab-small", "data.vocab=100", "vocab", "257"),
    trains("vocab-of-words-small", "data.vocab=2", "data.vocab", "3"),
    trains("vocab-none", "data.vocab=null", "vocab is needed unless data.tokenizer is given"),
    trains("tokenizer-gone", "data.tokenizer=nowhere", "no tokenizer there", "tokenizer.json", "bytes"),
    trains("tokenizer-number", "data.tokenizer=3", "data.tokenizer", "string"),
    trains("tokenizer-endless", "data.tokenizer={shelf}/endless.json", "has no end token", "</s>"),
    trains("held-out", "data.held_out=1", "data.held_out", "less than 1"),
    trains("held-out-nan", "data.held_out=.nan", "data.held_out"),
]

SOURCES = [
    reads("unnamed", "", "data.source"),
    reads("missing", "nowhere.txt", "nowhere.txt", "no such file or folder", "stories"),
    reads("missing-yaml", "a: b", "a: b", "no such file or folder"),
    reads("missing-number", "2024", "2024", "no such file or folder"),
    reads("empty", "{shelf}/empty.txt", "empty.txt: empty"),
    reads("blank", "{shelf}/blank.txt", "blank.txt: empty"),
    reads("binary", "{shelf}/binary.txt", "binary", "offset 2"),
    reads("utf16", "{shelf}/utf16.txt", "UTF-16"),
    reads("latin", "{shelf}/latin.txt", "not UTF-8 at byte offset 3", "convert it"),
    reads("letter", "{shelf}/letter.txt", "too short to hold out", "add text"),
    reads("short", "{shelf}/short.txt", "tokens", "one window of context 16 needs 17", "lower the context"),
    reads("jsonl", "{shelf}/broken.jsonl", "line 2", "not JSON"),
    reads("jsonl-field", "{shelf}/other.jsonl", "line 1", 'no string field "text"'),
    reads("jsonl-list", "{shelf}/list.jsonl", "a JSON array", "write each text on a line of its own"),
    reads("jsonl-number", "{shelf}/number.jsonl", "line 1", 'no string field "text"'),
    reads("jsonl-blank", "{shelf}/blank.jsonl", "no line has any text"),
    reads("jsonl-surrogate", "{shelf}/surrogate.jsonl", "line 1", "surrogate"),
    reads("folder", "{shelf}/nothing", "no text in this folder", ".txt"),
    reads("folder-readme", "{shelf}/readme", "no text in this folder"),
    reads("folder-bad", "{shelf}/mixed", "bad.txt", "not UTF-8"),
    reads("parquet-column", "{shelf}/ids.parquet", "no column 'text'", "id (int64), content (string)", "data.column"),
    reads("parquet-number", "{shelf}/number.parquet", "column 'text' holds int64, not strings"),
    reads("parquet-blank", "{shelf}/blank.parquet", "empty: no row has any text"),
    reads("parquet-broken", "{shelf}/broken.parquet", "broken.parquet: damaged, or of another format"),
    reads("stories-none", "stories:0", "at least one story"),
    reads("stories-word", "stories:many", "stories:COUNT"),
]

STAGED = ["train", "tiny", "--out", "new", "--set", "model.mixer={kind: attention, heads: 2}"]
STAGES = [
    (
        "stages-beyond",
        [*STAGED, "--set", "training.stages=[{batches: 3, window: 8}, {batches: 3, window: 32}]"],
        ("the window 32 of stage 2 exceeds its context of 16 tokens",),
    ),
    (
        "stages-beyond-rows",
        [*STAGED, "--set", "training.stages=[{batches: 3, window: 8, context: 4}, {batches: 3, window: 16}]"],
        ("the window 8 of stage 1 exceeds its context of 4 tokens",),
    ),
    (
        "stages-context",
        [*STAGED, "--set", "training.stages=[{batches: 3, context: 32}]"],
        ("the context 32 of stage 1 exceeds model.context 16",),
    ),
    (
        "stages-some",
        [*STAGED, "--set", "training.stages=[{batches: 3}, {batches: 3, window: 8}]"],
        ("stage 1 has no window and others have",),
    ),
    (
        "stages-sum",
        [*STAGED, "--set", "training.stages=[{batches: 3}]", "--set", "training.batches=4"],
        ("3 batches in all", "training.batches is 4", "leave training.batches out"),
    ),
    (
        "stages-probe",
        [*STAGED, "--set", "training.objective.kind=probe", "--set", "training.stages=[{batches: 3, context: 4}]"],
        ("stage 1 has a context", "objective"),
    ),
]

TRAINING = [
    *STAGES,
    ("preset", ["train", "tinny", "--out", "new"], ("unknown preset 'tinny'", "did you mean 'tiny'", ".yaml")),
    ("preset-missing", ["train", "no.yaml", "--out", "new"], ("no.yaml", "no such preset file")),
    ("preset-broken", ["train", "{shelf}/broken.yaml", "--out", "new"], ("broken.yaml", "not readable YAML")),
    ("preset-list", ["train", "{shelf}/list.yaml", "--out", "new"], ("holds no settings", "model, data")),
    ("preset-empty", ["train", "{shelf}/empty.yaml", "--out", "new"], ("holds no settings",)),
    ("preset-latin", ["train", "{shelf}/latin.yaml", "--out", "new"], ("latin.yaml", "not UTF-8 text (byte 7)")),
    ("preset-typo", ["train", "{shelf}/typo.yaml", "--out", "new"], ("unknown setting 'modl'", "'model'")),
    ("preset-model", ["train", "{shelf}/model_list.yaml", "--out", "new"], ("model: ", "given by its settings")),
    ("preset-no-data", ["train", "{shelf}/no_data.yaml", "--out", "new"], ("'data' is missing",)),
    (
        "preset-folder",
        ["train", "{shelf}/folder.yaml", "--out", "new"],
        ("is a folder, not a regular file",),
    ),
    (
        "preset-twice",
        ["train", "{shelf}/twice.yaml", "--out", "new"],
        ("'lr' stands on line 4", "line 5"),
    ),
    ("preset-number", ["train", "{shelf}/number.yaml", "--out", "new"], ("number.yaml", "holds no settings")),
    ("preset-key", ["train", "{shelf}/key.yaml", "--out", "new"], ("keys should be strings, not 1",)),
    ("preset-object", ["train", "{shelf}/object.yaml", "--out", "new"], ("object.yaml", "python/object")),
    ("preset-aliases", ["train", "{shelf}/aliases.yaml", "--out", "new"], ("aliases.yaml", "20,000 values")),
    ("preset-itself", ["train", "{shelf}/itself.yaml", "--out", "new"], ("itself.yaml", "holds itself")),
    ("preset-deep", ["train", "{shelf}/deep.yaml", "--out", "new"], ("deep.yaml", "nested more than 50 deep")),
    ("preset-huge", ["train", "{shelf}/huge.yaml", "--out", "new"], ("huge.yaml", "too large")),
    ("preset-null-path", ["train", "a\0.yaml", "--out", "new"], ("null character",)),
    ("out-missing", ["train", "tiny"], ("Missing option '--out'",)),
    ("out-nothing", ["train", "tiny", "--out", ""], ("--out", "no name")),
    ("out-a-file", ["train", "tiny", "--out", "{shelf}/empty.txt"], ("a file is in its place", "another --out")),
    ("out-in-a-file", ["train", "tiny", "--out", "{shelf}/empty.txt/x"], ("a file is in its place",)),
    (
        "out-of-others",
        ["train", "tiny", "--out", "{run}", "--set", "model.dim=16"],
        ("other settings: model.dim is 32 there and 16 here", "choose another --out"),
    ),
    (
        "out-of-another-corpus",
        ["train", "tiny", "--out", "{run}", "--data", "stories:60"],
        ("holds a run on another text", "choose another --out"),
    ),
    ("out-newer", ["train", "tiny", "--out", "{wrecks}/newer_config"], ("format is 2 there and 1 here",)),
    ("out-broken", ["train", "tiny", "--out", "{wrecks}/broken_config"], ("config.json", "not readable JSON")),
    ("out-list", ["train", "tiny", "--out", "{wrecks}/list_config"], ("config.json", "does not hold settings")),
    ("out-no-config", ["train", "tiny", "--out", "{wrecks}/no_config"], ("without its config.json", "another --out")),
]
