"""A server in this process, with two small models and one that is damaged."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import torch
import uvicorn

import seqloom
from seqloom.cli import command
from seqloom.core.model import Model
from seqloom.data.tokenizer import Tokenizer
from seqloom.play.app import build_app
from seqloom.play.engine import Engine
from seqloom.play.library import Library
from seqloom.play.serve import bind


@dataclass
class Served:
    """The server's address, its engine, and its folder of runs."""

    url: str
    port: int
    engine: Engine
    runs: Path

    def client(self, **settings: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **settings)  # type: ignore[arg-type]


TEXT = "Once upon a time there was a small dog. The end. é 🐈 "


def save_model(
    folder: Path, kind: str, seed: int, *, endless: bool = False, text: str = TEXT, **settings: object
) -> Model:
    torch.manual_seed(seed)
    tokenizer = Tokenizer.train([text] * 3, 280)
    sizes = {"vocab": tokenizer.vocab, "dim": 16, "depth": 2, "context": 64, "ffn": 32, "dropout": 0.0, "std": 0.5}
    model = seqloom.decoder(kind, **{**sizes, "position": "none", **settings}).eval()  # type: ignore[arg-type]
    if endless:
        with torch.no_grad():
            model.head.bias[tokenizer.eos] = -100.0
    seqloom.save(model, folder, tokenizer=tokenizer)
    return model


def save_broken(folder: Path) -> None:
    """A model whose training went wrong."""
    model = save_model(folder, "gru", 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    seqloom.save(model, folder, tokenizer=seqloom.load(folder).tokenizer)


def save_pictures(folder: Path, source: str) -> None:
    """A model that was hardly trained on pictures of 8 × 8 pixels."""
    changes = {
        **{"model.context": 65, "model.dim": 8, "model.depth": 1, "model.ffn.width": 8, "model.mixer.heads": 1},
        **{"training.batches": 1, "training.batch": 2, "training.evaluate_every": 1},
    }
    words = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    assert command(["train", "pictures/small", "--data", source, "--out", str(folder), *words]) == 0


@pytest.fixture(scope="session")
def picture_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of pictures."""
    folder = tmp_path_factory.mktemp("drawing") / "pictures"
    save_pictures(folder, "images:digits:8:40")
    return folder


@pytest.fixture
def drawing(served: Served, picture_run: Path) -> Iterator[str]:
    """The name of a model of pictures, which is served with the others."""
    served.engine.library._folders[picture_run.name] = picture_run
    yield picture_run.name
    del served.engine.library._folders[picture_run.name]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runs = tmp_path_factory.mktemp("play") / "runs"
    save_model(runs / "gru", "gru", 1)
    save_model(runs / "he", "he", 2, position="learned")
    save_model(runs / "endless", "gru", 1, endless=True)
    save_model(runs / "other", "gated_delta", 1, text="a tokenizer of its own: Zwölf Boxkämpfer", heads=2)
    save_broken(runs / "nan")
    save_model(runs / "damaged", "gru", 3)
    for path in (runs / "damaged").rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-9])
    listening = bind(0)
    port = listening.getsockname()[1]
    (runs / "report.html").write_text("<!doctype html><title>A report</title>")
    engine = Engine(Library([runs], 10**9))
    engine.start()
    config = uvicorn.Config(build_app(engine, port), log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield Served(f"http://127.0.0.1:{port}", port, engine, runs)
    server.should_exit = True
    thread.join(10)
    engine.close()
