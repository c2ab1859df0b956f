# The two commands of a newcomer are `make demo` and `make test`. Everything runs in .venv, which installs itself.
PYTHON ?= python3
BIN := .venv/bin
# Compiled test files are kept, or each worker of each pass would rewrite their assertions again.
ONE := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
TEST := $(ONE) -n 2 --dist worksteal

.PHONY: demo test test-short test-shapes test-long test-all sanitize test-demo mutants check format pages docs gpu clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/seqloom demo --out runs/demo

# A second time with shapes checked at run time: every verb of every mixer once, in one process, since importing is most of
# it, next to the other tests; the rest of that in `test-all`. The hook that checks them doubles the time, and breaks graph
# capture.
SHAPED := tests/contract/test_shapes.py
TENSORS := tests/ops tests/contract tests/mixers tests/models tests/positions tests/generation

# SEQLOOM_REQUIRE_PEERS=1, as in CI: the public code that ours is compared with is installed, and no comparison is skipped.
WITH_PEERS := $(if $(filter 1,$(SEQLOOM_REQUIRE_PEERS)),.venv/peers,.venv/installed)

test: $(WITH_PEERS)
	$(MAKE) --no-print-directory --jobs 2 test-short test-shapes

test-short: $(WITH_PEERS)
	$(TEST) -m "not slow and not demo and not browser"

test-shapes: $(WITH_PEERS)
	SEQLOOM_SHAPES=1 $(ONE) -m "not slow" $(SHAPED)

# What takes longer, as whole commands, trainings and studies: a third of the slow cases of each test, as in CI
# (tests/sampling.py); minutes more.
test-long: $(WITH_PEERS)
	$(TEST) -m "slow and not demo and not browser" --one-in 3

test-all: test sanitize
	SEQLOOM_SHAPES=1 $(TEST) -m "not graph and not demo and not browser" --one-in 3 $(TENSORS)
	$(TEST) -m "slow and not demo and not browser"
	$(MAKE) test-demo

# The C under the sanitizers: its tests, then CASES random calls of ops and mixers; for minutes.
CASES ?= 2000
sanitize: .venv/installed
	$(BIN)/python -m tests.sanitize --cases $(CASES)

test-demo: .venv/browser
	$(MAKE) demo
	$(BIN)/python -m pytest -m demo
	$(BIN)/python -m pytest -m browser

# Plants faults in what is decisive, in copies of the tree, and lists those that no test notices; tens of minutes.
mutants: .venv/installed
	$(BIN)/python -m tests.mutants --number 100 --seed 0

# What drives a browser, and what builds the pages of the site that it opens; the browser itself (Chromium) comes from the
# system, and its tests are skipped without one.
.venv/browser: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,browser,docs]'
	touch $@

.venv/peers: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,peers,kernels]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps xlstm==2.0.6  # its kernels need a GPU
	# Beside the environment, for a test that asks for it: else transformers calls its kernels, on a CPU too, where they fail.
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps --upgrade --target .venv/fla fla-core
	touch $@

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/cli/test_registry.py -k current

format: .venv/installed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# What the command line knows without torch, and a page for each mixer, as they are committed; `docs` makes the site of
# them too, in site/, with pictures, results and typeset equations; these need KaTeX, which npm fetches into the cache.
pages: .venv/installed
	$(BIN)/python -m seqloom.cli.described
	$(BIN)/python -m docs.pages

docs: pages .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html; with its search: $(BIN)/python -m http.server --directory site"

.venv/docs: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	touch $@

# What a GPU tells first (src/seqloom_studies/gpu/README.md): packs for a bare machine, in build/gpu/, of BOOKS, a folder of texts
# with their authors; then, where this machine has a GPU, eight minutes of the queue.
gpu: .venv/installed
	$(BIN)/python -m seqloom_studies.gpu.pack $(if $(BOOKS),--data $(BOOKS))
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; \
	then $(BIN)/seqloom study gpu --minutes 8 $(if $(BOOKS),--data $(BOOKS)); \
	else echo "no GPU here: take the packs to one"; fi

clean:
	rm -rf .venv build site *.egg-info
