"""`seqloom tour`: the models, the sentence, the page."""

from collections.abc import Sequence
from pathlib import Path

from seqloom.runs.layout import make_folder
from seqloom.tour import page
from seqloom.tour.content import look
from seqloom.tour.models import default_models, find_models
from seqloom.tour.sentence import default_text


def write_tour(folders: Sequence[Path], text: str | None, word: str | None, out: Path) -> Path:
    """Writes the page and returns its path. ValueError or FileNotFoundError for what cannot be shown."""
    three = find_models(folders) if folders else default_models()
    shown = look(three, default_text(three.tokenizer) if text is None else text, word)
    make_folder(out.parent)
    return page.write(out, shown)
