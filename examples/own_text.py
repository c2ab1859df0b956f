"""Train a small model on your own text, score it, and generate text from a prompt.

python examples/own_text.py TEXT RUN           a file or a folder, and the run, which the same command continues
"""

import sys
from collections.abc import Sequence

import seqloom
from seqloom.training.settings import resolve
from seqloom.training.train import train


def main(text: str, run: str, changes: Sequence[str] = ()) -> str:
    """Prints the held-out score and a continuation, which it returns."""
    settings = ["model.mixer.kind=he", "training.schedule.kind=cosine", *changes]
    outcome = train(resolve("paper/small", settings, source=text), run)
    print(outcome.summary)
    model = seqloom.load(run)
    prompt = "Once upon a time"
    story = "".join(seqloom.generate(model, prompt, max_tokens=60, top_p=0.6, seed=0))
    print(prompt + story)
    return story


if __name__ == "__main__":
    main(*sys.argv[1:])
