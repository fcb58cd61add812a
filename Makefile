# Each target makes what it needs: `make run` on a fresh machine opens the page.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint bench clean

run: .venv/run
	$(BIN)/k3scope serve $(ARGS)

test: .venv/test
	$(BIN)/pytest -q $(ARGS)
	$(BIN)/k3scope check

lint: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

bench: .venv/test
	for file in tests/bench/*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf .venv build *.egg-info

.venv/run: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet "torch==2.13.0"
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/test: .venv/run
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $@
