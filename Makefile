# Each target makes what it needs: `make run` on a fresh machine opens the page. `make help` lists them.
PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin
PYTEST := $(BIN)/pytest -q

.PHONY: help run fast test sweep lint bench train sbom audit clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

run: .venv/run  ## the page in your browser; ARGS go to `k3scope serve`
	$(BIN)/k3scope serve $(ARGS)

fast: .venv/test  ## the quick loop: no browser, nothing slow; under 3 minutes on two cores
	$(PYTEST) -m "not slow and not sweep and not browser" $(ARGS)

test: .venv/test  ## all but the sweep, then `k3scope check`; under 12 minutes
	$(PYTEST) -m "not sweep" $(ARGS)
	$(BIN)/k3scope check

sweep: .venv/test  ## what is exhaustive: every block in every view, load, every compiler and architecture
	$(PYTEST) -m sweep $(ARGS)

lint: .venv/test  ## format and rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

bench: .venv/test  ## measure the CPU kernels of this machine
	$(BIN)/python tests/bench/cpu.py --quick $(ARGS)

# hours on two cores. The model's card has the runs: first ARGS="--phase begin --out build/begin --minutes 60",
# then ARGS="--from build/begin/weights --minutes 80", which the phase anneal may end
train: .venv/train  ## the small model, from the text up
	test -f build/corpus/manifest.json || $(BIN)/python -m k3scope.model.training.corpus --out build/corpus
	nice -n 19 $(BIN)/python -m k3scope.model.training --corpus build/corpus --out build/train $(ARGS)

sbom: .venv/run build/bom  ## a bill of materials of what is installed: build/k3scope.cdx.json
	build/bom/bin/cyclonedx-py environment $(BIN)/python --output-file build/k3scope.cdx.json

audit: .venv/run build/bom  ## known weaknesses of what is installed; asks PyPI
	build/bom/bin/pip-audit --path $$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")

clean:  ## remove what these made
	rm -rf .venv build *.egg-info

# torch alone first, at the version that is tested
.venv/run: pyproject.toml
	@echo "Installing torch, Panel, Bokeh and others into .venv, once; this takes some minutes."
	@echo "To download: 0.3 GB with torch's CPU build (1.3 GB on disk), 2.8 GB with its CUDA build; see README.md."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable .
	@touch $@

build/bom:
	$(PYTHON) -m venv build/bom
	build/bom/bin/pip install --quiet "cyclonedx-bom>=7,<8" "pip-audit>=2.9,<3"

.venv/train: .venv/run
	$(BIN)/pip install --quiet --editable ".[train]"
	@touch $@

.venv/test: .venv/run
	$(BIN)/pip install --quiet --editable ".[test]"
	@touch $@
