# The few commands there are. `make demo` and `make test` set up everything they need in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
SETUP := .venv/.set-up

# Without byte code every process of the tests compiles all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-quick test-lowest check docs router bench clean

$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip==26.3
	$(BIN)/pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet -c constraints.txt --editable '.[all]' --group dev
	$(BIN)/python tests/install_browser.py
	touch $@

demo: $(SETUP)
	$(BIN)/python examples/demo.py

# What every change must pass.
test: $(SETUP)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow"

# Everything there is, as CI runs it.
test-all: $(SETUP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What needs no torch, browser or PostgreSQL, starts no process and runs no whole session: while working.
test-quick: $(SETUP)
	$(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/e2e --ignore tests/torchlab \
		-m "not slow and not whole and not torch and not browser and not postgresql"

# The same at the lowest versions that pyproject.toml allows, in an environment of its own.
LOWEST := .venv/lowest
test-lowest: $(SETUP)
	$(PYTHON) -m venv --clear $(LOWEST)
	$(BIN)/python checks/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/pip install --quiet -c $(LOWEST)/constraints.txt --editable '.[agents,fix,postgresql,trace,web]' $$($(BIN)/python checks/lowest.py --test-tools)
	$(LOWEST)/bin/python -m pytest -n 2 --dist worksteal -m "not slow and not torch and not browser and not postgresql"

check: $(SETUP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/typos
	$(BIN)/python checks/language.py

# The weights of the router, from the requests in benchmarks/routing and the agents' definitions.
ROUTER := .venv/router
router: $(SETUP)
	$(PYTHON) -m venv $(ROUTER)
	$(ROUTER)/bin/python -m pip install --quiet --upgrade pip==26.3
	$(ROUTER)/bin/pip install --quiet -c constraints.txt --editable . --group router
	$(ROUTER)/bin/python benchmarks/train_router.py

docs: $(SETUP)
	$(BIN)/esper rule --all > docs/rules.md
	$(BIN)/python checks/completion_table.py > .venv/completion_table.py
	mv .venv/completion_table.py esper_agents/cli/completion_table.py
	ESPER_REWRITE_EXPECTED=1 $(BIN)/python -m pytest -q tests/cli/test_command_table.py
	$(BIN)/python checks/report_schema.py
	$(BIN)/python checks/option_tables.py
	$(BIN)/python checks/library_table.py
	$(BIN)/python checks/error_patterns.py

bench: $(SETUP)
	for each in log archive web routing review_speed review_cases review_blind review_corpus review_fixes changes startup crash freeze races overhead sessions memory looks flops compile_cases peak_memory bottlenecks hostile escapes adversarial decisions certificates issuing loops worker cluster wild first_request reasoning injections; do echo "== $$each"; $(BIN)/python benchmarks/$$each.py || exit 1; done

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
