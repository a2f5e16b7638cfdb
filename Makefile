# `make demo` and `make test` set up all they need on Debian 12; see docs/install.md.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STUDY ?= studies/quickstart.yaml
RESULTS ?= results/$(notdir $(basename $(STUDY)))
PYTEST_ARGS ?=
FUZZ_SECONDS ?= 600
HOSTILE_PLAYS ?= 1

# Studies and integration tests make namespaces and start daemons: as root, through sudo where need be. Root then
# leaves no byte code or caches behind that the user could not remove.
USE_SUDO := $(if $(filter 0,$(shell id -u)),,yes)
ROOT_ENV := $(if $(USE_SUDO),sudo env PYTHONDONTWRITEBYTECODE=1 PYTEST_ADDOPTS="-p no:cacheprovider" \
	$(if $(CI),CI=$(CI)) $(if $(XDG_CACHE_HOME),XDG_CACHE_HOME=$(XDG_CACHE_HOME)) $(if $(TARE_CACHE),TARE_CACHE=$(TARE_CACHE)))

SHELL_FILES := tools/bootstrap tools/empty-machine tools/lib.sh tools/apptainer tools/mpis tools/networks tools/podman-hpc tools/programs tools/without-services .ci/run kernels/run/tare-run.sh $(wildcard src/tare/images/scripts/*.sh) \
	$(wildcard tests/emulated/guest/*.sh) tests/emulated/guest/init
C_FILES = $(shell find kernels miniapps tests/kernels benchmarks -name build\* -prune -o \( -name '*.c' -o -name '*.h' \) -print)
TEXT_FILES := $(wildcard *.md) docs src tests kernels miniapps tools studies Makefile pyproject.toml
# The tests that are often run; the marks are explained in pyproject.toml.
OFTEN := not long and not measures and not kubernetes and not faults

.PHONY: help setup demo test test-live test-long test-measures test-all test-faults test-kubernetes explain-check test-fast fuzz fuzz-proof mends lint format types docs wheel release lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

setup: ## install what running studies needs
	@tools/bootstrap run

demo: ## set up, run the quick-start study, print its tables and write its HTML report
	@tools/bootstrap run
	@status=0; \
	$(ROOT_ENV) $(BIN)/tare run $(STUDY) || status=$$?; \
	if [[ -n "$(USE_SUDO)" && -d results ]]; then sudo chown -R "$$(id -u):$$(id -g)" results; fi; \
	case $$status in \
	0) ;; \
	3) echo "Some comparisons need more rounds for a verdict; the report says which." ;; \
	*) exit $$status ;; \
	esac; \
	[[ -f $(RESULTS)/report.html ]] || $(BIN)/tare report $(RESULTS) --html $(RESULTS)/report.html; \
	echo "Report: file://$$(realpath $(RESULTS)/report.html)"

test: ## set up, then lint, types and every test
	@tools/bootstrap test
	@$(MAKE) --jobs 2 --output-sync=target types lint docs
	@$(ROOT_ENV) $(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder \
	  -m "$(OFTEN) and (not live or smoke)" $(PYTEST_ARGS)

test-live: ## the other live tests, without Kubernetes and those that take a minute or more; hostile ones HOSTILE_PLAYS times
	@tools/bootstrap live
	@$(ROOT_ENV) env TARE_HOSTILE_PLAYS=$(HOSTILE_PLAYS) $(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder \
	  -m "$(OFTEN) and live and not smoke" --second-run $(PYTEST_ARGS)

test-long: ## live tests that take minutes, as all studies in their thin versions and those in an emulated machine
	@tools/bootstrap all
	@$(ROOT_ENV) $(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder \
	  -m "long and not measures and not kubernetes and not faults" --second-run $(PYTEST_ARGS)

test-measures: ## the tests that compare times, one at a time, on a machine that has nothing else to do
	@tools/bootstrap all
	@$(ROOT_ENV) $(BIN)/python -m pytest -m "measures and not kubernetes" --second-run $(PYTEST_ARGS)

test-all: ## every target of tests; resumes where it was stopped; table in results/test-all.md (TEST_ALL=--faults for all)
	@$(ROOT_ENV) python3 tools/test_all.py $(TEST_ALL)

test-faults: ## play each fault three times on real clusters and print the table (two hours); docs/reliability.md has it
	@tools/bootstrap all
	@rm -f results/faults.jsonl
	@status=0; $(ROOT_ENV) $(BIN)/python -m pytest -m faults tests/faults $(PYTEST_ARGS) || status=$$?; \
	$(BIN)/python tools/reliability_page.py results/faults.jsonl; exit $$status

test-kubernetes: ## bring Kubernetes for labs, then run every live test of it; a skipped test fails
	@tools/bootstrap kubernetes
	@$(ROOT_ENV) env CI=true $(BIN)/python -m pytest -m kubernetes --second-run $(PYTEST_ARGS)

explain-check: ## programs that do other work, and planted causes: does tare tell and name them? goes on where it was stopped
	@tools/bootstrap all
	@cd tests && $(ROOT_ENV) PYTHONPATH=.:../src ../$(BIN)/python -m plants.works
	@cd tests && $(ROOT_ENV) PYTHONPATH=.:../src ../$(BIN)/python -m plants.check $(if $(SEEDS),--seeds $(SEEDS))

papers-%: ## run the studies of a paper, such as papers-003, and judge its claims; goes on where it was stopped
	@tools/bootstrap $(if $(filter 004,$*),kubernetes,all)
	@$(ROOT_ENV) $(BIN)/python tools/papers.py $*

test-fast: ## the tests that need neither root nor daemons
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m "$(OFTEN) and not live and not integration and not slow and not root" $(PYTEST_ARGS)

fuzz: ## every fuzzer for ten minutes (FUZZ_SECONDS=600), two at a time; `make test` runs each for some seconds
	@TARE_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest tests/fuzz -n 2 --dist worksteal -rP \
	  --timeout=$$(($(FUZZ_SECONDS) + 600)) $(PYTEST_ARGS)

fuzz-proof: ## show that each fuzzer finds a mend that is taken back (tests/fuzz/reverts/)
	@$(BIN)/python tests/fuzz/reverts.py

mends: ## take each of 60 past mends back in a scratch copy, and see that the tests catch it (tests/mends/)
	@tools/bootstrap test
	@$(ROOT_ENV) $(BIN)/python tests/mends/check.py $(MENDS)

lint: ## style of Python, C and shell, spelling, and which module may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	shellcheck $(SHELL_FILES)
	$(if $(strip $(C_FILES)),clang-format --dry-run -Werror $(C_FILES))
	$(BIN)/codespell $(wildcard $(TEXT_FILES))

format: ## let the formatters rewrite Python and C
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(if $(strip $(C_FILES)),clang-format -i $(C_FILES))

types: ## mypy --strict
	$(BIN)/mypy --strict src

docs: ## build the documentation into site/; wrong links and pages that differ from the code fail
	$(BIN)/python tools/environments_table.py --check
	$(BIN)/python tools/errors_page.py --check
	$(BIN)/python tools/commands_page.py --check
	$(BIN)/python tools/architecture.py --check
	$(BIN)/python tools/frames_page.py --check
	@rm -rf site
	$(BIN)/python -m sphinx --quiet --fail-on-warning --fresh-env -c docs . site

wheel: ## build dist/tare_hpc-*.whl, with the C sources, man pages and completion in it
	@$(BIN)/python tools/release.py --wheel

release: ## build all that is released, of the last commit, into dist/ (KEY=ID signs its sums with gpg)
	@$(BIN)/python tools/release.py $(if $(KEY),--key $(KEY))

lock: ## renew the locked versions of the Python packages (needs uv)
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  pyproject.toml --extra modality --group pyproject.toml:build --output-file lock/run.txt
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --constraint lock/run.txt pyproject.toml --extra modality --group pyproject.toml:build --group pyproject.toml:dev \
	  --output-file lock/dev.txt

clean: ## remove what make and the tests made here; results and the cache of images stay
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist site src/*.egg-info kernels/build* miniapps/build*
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
