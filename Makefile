# Each target makes what it needs: `make run` on a fresh machine opens the page.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint bench train clean

run: .venv/run
	$(BIN)/k3scope serve $(ARGS)

test: .venv/test
	$(BIN)/pytest -q $(ARGS)
	$(BIN)/k3scope check

lint: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

bench: .venv/test
	$(BIN)/python tests/bench/cpu.py --quick $(ARGS)

# the small model; hours on two cores. Its card has the runs: first ARGS="--phase begin --out build/begin --minutes 60",
# then ARGS="--from build/begin/weights --minutes 80", which the phase anneal may end
train: .venv/train
	test -f build/corpus/manifest.json || $(BIN)/python -m k3scope.model.training.corpus --out build/corpus
	nice -n 19 $(BIN)/python -m k3scope.model.training --corpus build/corpus --out build/train $(ARGS)

clean:
	rm -rf .venv build *.egg-info

.venv/run: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet "torch==2.13.0"
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/train: .venv/run
	$(BIN)/pip install --quiet --editable ".[train]"
	touch $@

.venv/test: .venv/run
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@
