"""Commands with mistakes: a name, the arguments, and what the one line of the error must contain.

{run} is a trained run, {wrecks} holds broken ones, {shelf} files that are no text. All run in an empty folder.
"""

from tests.cli.bad_training import PAIRS, SETTINGS, SOURCES, TRAINING, Case


def writes(name: str, option: str, *words: str) -> Case:
    """An option, with its value, that generation refuses."""
    return f"generate-{name}", ["generate", "{run}", "Once", *option.split(" ")], words


def opens(wreck: str, *words: str) -> Case:
    """A broken run that generation refuses."""
    return f"run-{wreck}", ["generate", "{wrecks}/" + wreck, "Once", "--step", "3"], words


def prices(name: str, arguments: str, *words: str) -> Case:
    """A price that is refused."""
    return f"cost-{name}", ["cost", *arguments.split(" ")], words


WORDS = [
    (
        "train-processes",
        ["train", "tiny", "--out", "new", "--processes", "3"],
        ("3 processes cannot share training.batch=", "multiple of 3"),
    ),
    (
        "train-processes-none",
        ["train", "tiny", "--out", "new", "--processes", "0"],
        ("--processes", "greater than or equal to 1"),
    ),
    ("command", ["trian", "tiny"], ("No such command 'trian'", "'train'")),
    ("command-nothing", [""], ("No such command",)),
    ("train-nothing", ["train"], ("Missing argument 'preset'",)),
    ("train-option", ["train", "tiny", "--uot", "new"], ("No such option: --uot", "--out")),
    ("train-value", ["train", "tiny", "--out"], ("--out", "requires an argument")),
    ("train-extra", ["train", "tiny", "extra", "--out", "new"], ("unexpected extra argument", "extra")),
    ("list-extra", ["list", "she", "he"], ("unexpected extra argument",)),
    ("list-mixer", ["list", "shee"], ("unknown mixer 'shee'", "did you mean 'she'")),
    ("list-family", ["list", "--family", "linaer"], ("unknown family 'linaer'", "did you mean 'linear'")),
    ("list-mixer-wide", ["list", "she", "--wide"], ("--wide", "leave out the mixer")),
    ("list-backends-json", ["list", "--backends", "--json"], ("--backends", "no other option")),
    ("doctor-no-run", ["doctor", "{shelf}"], ("is not a run", "config.json")),
    ("doctor-nowhere", ["doctor", "nowhere"], ("nowhere does not exist",)),
    ("settings-path", ["settings", "training.lrr"], ("no setting 'training.lrr'", "did you mean 'training.lr'")),
    ("settings-nothing", ["settings", ""], ("no setting ''",)),
    ("data-nothing", ["data"], ("Missing argument 'source'",)),
    ("data-gone", ["data", "nowhere"], ("nowhere", "no such file or folder")),
    ("data-vocab", ["data", "stories:3", "--vocab", "10"], ("at least 257",)),
    ("data-vocab-word", ["data", "stories:3", "--vocab", "ten"], ("--vocab", "integer")),
    ("data-vocab-given", ["data", "stories:3", "--tokenizer", "bytes", "--vocab", "100"], ("257 entries", "vocab=100")),
    ("data-episodes", ["data", "episodes:CartPoel-v1:random"], ("unknown environment", "did you mean 'CartPole-v1'")),
    ("data-episodes-maze", ["data", "episodes:TMaze-101:random"], ("a length of 10 to 100", "not 101")),
    ("data-tokenizer-gone", ["data", "stories:3", "--tokenizer", "nowhere"], ("no tokenizer there", "bytes")),
    ("demo-scale", ["demo", "--scale", "tinny", "--out", "new"], ("unknown scale 'tinny'", "tiny")),
    ("demo-default-out", ["demo", "--scale", "tinny"], ("unknown scale 'tinny'", "tiny")),
    ("demo-out", ["demo", "--scale", "tiny", "--out", ""], ("--out", "no name")),
    ("evaluate-nothing", ["evaluate", "{run}"], ("Missing option '--data'",)),
    ("evaluate-gone", ["evaluate", "{run}", "--data", "nowhere"], ("nowhere", "no such file or folder")),
    ("evaluate-empty", ["evaluate", "{run}", "--data", "{shelf}/empty.txt"], ("empty.txt: empty",)),
    ("evaluate-latin", ["evaluate", "{run}", "--data", "{shelf}/latin.txt"], ("not UTF-8 at byte offset 3",)),
    ("evaluate-jsonl", ["evaluate", "{run}", "--data", "{shelf}/broken.jsonl"], ("line 2", "not JSON")),
    ("evaluate-column", ["evaluate", "{run}", "--data", "{shelf}/ids.parquet"], ("content (string)", "--column")),
    ("data-no-columns", ["data", "stories:3", "--column", "a"], ("stories:3 has no columns",)),
    (
        "vectors-no-columns",
        ["data", "vectors", "stories:3", "--column", "a", "--out", "new.txt"],
        ("stories:3 has no columns",),
    ),
    (
        "evaluate-no-columns",
        ["evaluate", "{run}", "--data", "stories:3", "--column", "a"],
        ("stories:3 has no columns",),
    ),
    (
        "evaluate-no-columns-txt",
        ["evaluate", "{run}", "--data", "{shelf}/short.txt", "--column", "a"],
        ("leave out --column, which is for JSON lines, Parquet and folders of datasets",),
    ),
    (
        "evaluate-far-positions",
        ["evaluate", "{run}", "--data", "stories:3", "--memory", "carry"],
        ("model.position=learned reaches 16: leave out --memory carry, or train with model.position=none",),
    ),
    ("evaluate-pairs", ["evaluate", "{run}", "--data", "pairs:dates:10"], ("pairs are for an encoder-decoder",)),
    (
        "compare-prompt-bytes",
        ["compare", "she", "--data", "stories:3", "--prompt", "a\udcff", "--out", "new"],
        ("the prompt 'a\\udcff' is not UTF-8", "the byte 0xff"),
    ),
    ("report-run", ["report", "{run}"], ("is a run, not a comparison", "the --out of `seqloom compare`")),
    ("evaluate-batch", ["evaluate", "{run}", "--data", "stories:3", "--batch", "0"], ("--batch", "1")),
    (
        "evaluate-stride",
        ["evaluate", "{run}", "--data", "stories:3", "--stride", "0"],
        ("stride", "from 1 to", "not 0"),
    ),
    (
        "evaluate-far",
        ["evaluate", "{run}", "--data", "stories:3", "--stride", "17"],
        ("from 1 to the 16 tokens", "not 17"),
    ),
    ("evaluate-step", ["evaluate", "{run}", "--data", "stories:3", "--step", "9"], ("step 9", "there is 3")),
    ("evaluate-no-run", ["evaluate", "nowhere", "--data", "stories:3"], ("nowhere does not exist", "--out")),
    ("evaluate-no-tokenizer", ["evaluate", "{wrecks}/no_tokenizer", "--data", "stories:3"], ("no tokenizer.json",)),
    ("generate-no-run", ["generate", "nowhere", "Once"], ("nowhere does not exist", "--out")),
    ("generate-not-a-run", ["generate", "{shelf}", "Once"], ("is not a run", "config.json")),
    ("generate-a-file", ["generate", "{shelf}/empty.txt", "Once"], ("is not a run",)),
    ("generate-nothing", ["generate", "{run}"], ("Missing argument 'prompt'",)),
    ("generate-empty", ["generate", "{run}", ""], ("the prompt is empty",)),
    (
        "generate-long-prompt",
        ["generate", "{run}", "Once upon a time there was a small dog", "--mode", "stream", "--max-tokens", "1"],
        ("of the prompt", "the model takes 16", "use mode 'slide'", "model.position=none"),
    ),
]

SAMPLING = [
    writes("stop-bytes", "--stop a\udcff", "the stop string 'a\\udcff' is not UTF-8", "the byte 0xff"),
    writes("long", "--mode stream --max-tokens 50", "the model takes 16", "use mode 'slide'", "max_tokens of at most"),
    writes("none", "--max-tokens 0", "max_tokens", "at least 1"),
    writes("word", "--max-tokens ten", "--max-tokens", "integer"),
    writes("fraction", "--max-tokens 1.5", "--max-tokens", "integer"),
    writes("cold", "--temperature -1", "temperature", "greater than or equal to 0"),
    writes("nan", "--temperature nan", "temperature", "finite"),
    writes("hot", "--temperature inf", "temperature", "finite"),
    writes("warm", "--temperature warm", "--temperature", "number"),
    writes("top-k", "--top-k 0", "top_k", "greater than or equal to 1"),
    writes("top-p", "--top-p 0", "top_p", "greater than 0"),
    writes("top-p-above", "--top-p 1.1", "top_p", "less than or equal to 1"),
    writes("top-p-nan", "--top-p nan", "top_p", "finite"),
    writes("hop", "--hop 0", "hop must lie in 1 … 16", "not 0"),
    writes("hop-above", "--hop 17", "hop must lie in 1 … 16", "not 17"),
    writes("hop-stream", "--mode stream --hop 2 --max-tokens 3", "no hop", "'slide'"),
    writes("stop", "--stop ", "stop holds an empty string"),
    writes("mode", "--mode streem", "unknown mode 'streem'", "did you mean 'stream'"),
    writes("seed", "--seed -1", "seed", "0"),
    writes("seed-big", f"--seed {10**20}", "seed"),
    writes("step", "--step 7", "no checkpoint of step 7", "there is 3"),
    writes("beams", "--beams 0", "beams", "greater than or equal to 1"),
    writes("beams-above", "--beams 99999", "99999 beams are more than the vocabulary has entries"),
    writes("beams-best", "--beams 2 --best 3", "best=3 results need as many beams"),
    writes("beams-penalty", "--beams 2 --length-penalty -1", "length_penalty", "greater than or equal to 0"),
    writes("beams-drawn", "--beams 2 --top-p 0.6", "does not sample", "leave out --top-p"),
    writes("beams-absent", "--best 3", "--best needs a beam search", "--beams 4"),
    writes("option", "--temprature 1", "--temprature", "--temperature"),
]

RUNS = [
    opens("truncated", "model.safetensors is truncated", "bytes"),
    opens("flipped", "model.safetensors is altered"),
    opens("half_manifest", "manifest.json is unreadable"),
    opens("no_weights", "model.safetensors is missing"),
    opens("newer_checkpoint", "written by a newer seqloom", "format 2", "upgrade"),
    opens("no_checkpoint", "no checkpoint", "step 3"),
    ("run-untrained", ["generate", "{wrecks}/no_checkpoint", "Once"], ("no checkpoint", "train it first")),
    opens("other_config", "belongs to other settings", "config.json"),
    opens("newer_config", "config.json", "written by a newer seqloom", "format 2", "upgrade"),
    opens("config_typo", "unknown setting 'dimm'", "did you mean 'dim'"),
    opens("no_format", "config.json", "'format'"),
    opens("broken_config", "config.json", "not readable JSON", "line"),
    opens("binary_config", "config.json", "not readable JSON", "UTF-8"),
    opens("list_config", "config.json", "does not hold settings"),
    opens("no_config", "is not a run", "config.json"),
    opens("no_tokenizer", "no tokenizer.json"),
    opens("broken_tokenizer", "tokenizer.json is damaged or of another run"),
    opens("foreign_tokenizer", "tokenizer.json is damaged or of another run"),
]

PRICES = [
    prices("mixer", "shee", "unknown mixer 'shee'", "did you mean 'she'"),
    prices("preset", "paper/tabel1", "did you mean 'paper/table1'"),
    prices("option", "attention --dmi 3", "unknown option '--dmi'", "did you mean '--dim'"),
    prices("heads", "attention --dim 128 --heads 5", "heads 5", "1, 2, 4, 8"),
    prices("heads-zero", "attention --heads 0", "heads", "greater than or equal to 1"),
    prices("heads-word", "attention --heads two", "heads", "'two'"),
    prices("groups", "she --groups 3", "dim 128", "groups 3"),
    prices("yaml", "she --groups [", "'['", "not readable YAML"),
    prices("flag", "she --out-proj maybe", "out_proj", "'maybe'"),
    prices("dim-zero", "attention --dim 0", "--dim", "at least 1"),
    prices("dim-negative", "attention --dim -4", "--dim", "'-4'"),
    prices("dim-word", "attention --dim ten", "--dim", "'ten'"),
    prices("dim-huge", f"she --dim {10**9} --context {10**9}", "--dim", "at most"),
    prices("dim-missing", "attention --dim", "--dim needs a value"),
    prices("dim-missing-then", "attention --dim --heads 3", "--dim needs a value"),
    prices("context", "attention --context 0", "--context", "at least 1"),
    prices("tokens", "attention --tokens 0", "--tokens", "at least 1"),
    prices("per", "attention --per day", "sequence or token", "'day'"),
    prices("extra", "attention more", "unexpected argument 'more'"),
    prices("json", "attention --json=5", "--json takes no value"),
    prices("preset-option", "tiny --dim 3", "unknown option '--dim'", "--tokens"),
    prices("preset-tokens", "tiny --tokens 17", "at most 16 tokens", "17"),
]

COMMANDS: list[Case] = [*SETTINGS, *PAIRS, *SOURCES, *TRAINING, *WORDS, *SAMPLING, *RUNS, *PRICES]
