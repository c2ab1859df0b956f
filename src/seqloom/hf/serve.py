"""`python -m seqloom.hf.serve FOLDER …`: `transformers serve`, which then knows seqloom's models.

transformers looks up the class that config.json names in its own package. The arguments are those of `transformers
serve`; it needs its packages: pip install 'transformers[serving]'.
"""

import sys

import transformers

from seqloom.hf.register import WRAPPERS


def expose_classes() -> None:
    """Puts the classes of seqloom's models where `transformers serve` looks for them."""
    for wrapper in WRAPPERS.values():
        setattr(transformers, wrapper.__name__, wrapper)


def main() -> None:
    """Runs `transformers serve` with the arguments of the command line."""
    from transformers.cli.transformers import app

    expose_classes()
    app(["serve", *sys.argv[1:]])


if __name__ == "__main__":
    main()
