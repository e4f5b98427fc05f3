# Everything a newcomer needs: `make report`, `make test`. Needs Python 3.11 or later, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
export HF_HUB_DISABLE_TELEMETRY := 1
# Notices about the future of mkdocs, which say nothing about this project.
export NO_MKDOCS_2_WARNING := 1
export DISABLE_MKDOCS_2_WARNING := true

.PHONY: report test lint format docs bench clean
.DEFAULT_GOAL := help

help:
	@echo "make report   fetch the default model and corpus, run every analysis, write report/index.html"
	@echo "make test     run the whole test suite"
	@echo "make lint     formatting, types, order of the folders, docs"
	@echo "make format   put the code into shape"
	@echo "make docs     build the documentation into site/"
	@echo "make bench    measure speed and memory"
	@echo "make clean    remove what make made"

report: $(VENV)/run.stamp
	$(BIN)/lamina report minilm --corpus ewt --out report

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term:skip-covered

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet

format: $(VENV)/lint.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/lint.stamp
	$(BIN)/mkdocs build --strict

bench: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) site report

# Set-up happens once, and again when what it depends on changes; torch first and by exact version,
# so that no other package pulls a larger build of it.
$(VENV)/run.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing lamina and what it needs into $(VENV) (a few minutes the first time)"
	$(PIP) torch==2.13.0
	$(PIP) --editable .
	touch $@

$(VENV)/test.stamp: $(VENV)/run.stamp
	$(PIP) --editable ".[test]"
	touch $@

$(VENV)/lint.stamp: $(VENV)/test.stamp
	$(PIP) --editable ".[lint]"
	touch $@
