# `make demo` and `make test` are all that a fresh machine needs: Python >= 3.11 and make.
# A distribution is any folder of plugins/ or contrib/ with a pyproject.toml; adding one changes
# no line here.

PYTHON ?= python3
PYTEST_ARGS ?=
CLIENTS_ARGS ?=
STREAMS ?= 1000000
REFUSALS ?= 100000
EXCHANGES ?= 10000
RESPONSES ?= 100000
FLIPS ?= all
CORPUS_FLIPS ?= 100
LONGEST_ANSWER ?= 8388608
CALLS ?= 3000
MINUTES ?= 10
# tests wait now and then, for a process or a socket: two more than there are processors
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 + (os.cpu_count() or 1))')
PROVIDERS ?=
PYTHONS ?=
VERSION ?=
DRAFT ?=
MUTANTS ?= 200
SEED ?= 1
PROCESSES ?= 2

VENV := .venv
# where an environment keeps its programs
BIN := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
PEERS := .venv-peers
PEERS_INSTALLED := $(patsubst lab/peers/%.txt,$(PEERS)/%/.installed,$(wildcard lab/peers/*.txt))
COUNTERPARTS := .venv-counterparts
RAY := .venv-ray
SDKS := .venv-sdks
CLIENTS := .venv-clients
FINDINGS := .venv-findings
SDKS_INSTALLED := $(patsubst lab/counterparts/sdks/%.txt,$(SDKS)/%/.installed,$(wildcard lab/counterparts/sdks/*.txt))
SITE := .venv-site
PY := $(VENV)/$(BIN)/python
# -qq keeps pip's errors and drops its warnings. Another installer:
#   make test INSTALL="uv pip install -q --python .venv/bin/python"
QUIET ?= -qq
INSTALL ?= $(PY) -m pip install $(QUIET) --disable-pip-version-check --no-input
OR_FAIL := || { echo "the installation failed; for all that pip has to say, run this again with QUIET=" >&2; exit 1; }
# the core's own tests: those of its packages, and of the client as a whole
CORE_TESTS := $(patsubst swink_core/%/,tests/%,$(filter-out %/__pycache__/,$(wildcard swink_core/*/))) \
	$(patsubst %,tests/test_%.py,arguments cancellation client conversations failure_table isolation \
	sound_conversations stifled_cancellation targets)
# heavy tests that run mypy, pyright or jedi
TYPE_CHECKS := contrib/swink/tests/test_types.py contrib/swink/tests/test_completion.py tests/test_docs.py \
	tests/test_template.py::test_every_variant_type_checks_strictly
PROJECTS := pyproject.toml $(wildcard plugins/*/pyproject.toml contrib/*/pyproject.toml)
EDITABLE := $(foreach project,$(patsubst %/,%,$(dir $(PROJECTS))),-e ./$(project))

.PHONY: help demo test heavy fresh coverage core-mutants lint format types wheels reference docs prose picture bench chaos kills fuzz transports exchanges judge scoreboard moving mutants counterparts clients reality constraints changelog release clean FORCE
.DELETE_ON_ERROR:

help:
	@echo 'make demo         install what running needs, then run `swink demo` (no key, no network)'
	@echo 'make test         install the rest, then run the tests (PYTEST_ARGS="-k name", WORKERS=0 for one process)'
	@echo 'make heavy        run the tests that `make test` leaves out to save time: other cases of what it tests'
	@echo 'make fresh        install a clone of the last commit with uv, and run swink there'
	@echo 'make coverage     run the core'\''s own tests, and fail where they leave too much of it out'
	@echo 'make core-mutants put 200 mutants of the core, drawn with a seed, before its own tests (SEED=2,'
	@echo '                  MUTANTS=50, PROCESSES=1); broken off, it goes on where it was'
	@echo 'make lint         ruff check and format --check (`make format` repairs), and plain English'
	@echo 'make types        mypy, strict, over all distributions, and the tests of what type checkers and'
	@echo '                  editors make of programs that use swink'
	@echo 'make wheels       build every wheel and smoke-test each one on its own'
	@echo 'make reference    write the pages of docs/reference that come from the code'
	@echo 'make docs         build the site of docs/ in build/site; broken links, broken anchors and search'
	@echo '                  queries that do not find their page fail'
	@echo 'make prose        check spelling (codespell) and prose (proselint) of the pages'
	@echo 'make picture      draw the pictures of the README and the command line quickstart'
	@echo 'make bench        measure the cost per event and per request and write the page of it, count'
	@echo '                  instructions (with valgrind), and measure each protocol at the gateway,'
	@echo '                  the start of the command line, and many prompts (CALLS=100000 for all)'
	@echo 'make chaos        kill workers and Redis under gateways for ten minutes (MINUTES=1)'
	@echo 'make kills        kill runs of `swink batch` two hundred times, with each engine of its journal, and at'
	@echo '                  every line while a batch is submitted to each vendor'
	@echo 'make reality      compare with recorded traffic of other projects: FOLDERS="one two"'
	@echo 'make fuzz         feed 1,000,000 broken answers (STREAMS=…) and 100,000 broken errors'
	@echo '                  (REFUSALS=…) to all providers, half over HTTP, flip every bit of'
	@echo '                  all recordings (FLIPS=50: of 50 bytes of each), measure the'
	@echo '                  work for each read of answers of 8 MB, then run the'
	@echo '                  property tests with many fresh examples'
	@echo 'make transports   read 100,000 damaged responses (RESPONSES=500) with both HTTP clients, compare them,'
	@echo '                  and run the matrix of faults of all providers with swink-transport-httptools'
	@echo 'make exchanges    hold 10,000 exchanges drawn with a seed, through the library and the gateway, with'
	@echo '                  the simulated vendor, and compare both sides (SEED=2, EXCHANGES=500, PROCESSES=1)'
	@echo 'make judge        judge every kind of call to every kind of model (PROVIDERS="openai groq"),'
	@echo '                  then 120 conversations by the rules and by the types of SDKs in .venv-sdks'
	@echo 'make mutants      mutate providers by rule, and count what the conformance kit finds (PROVIDERS="sound"),'
	@echo '                  run all checks on its faulty providers, and put langchain-tests beside it'
	@echo 'make scoreboard   put swink and its peers before the same faults, and before the judge; writes two pages'
	@echo 'make moving       run the programs of the pages of moving to swink, and of the page that compares'
	@echo '                  programs, installing the other libraries'
	@echo 'make counterparts show traces to Phoenix and metrics to Prometheus, put gateways behind'
	@echo '                  haproxy and before a real Redis, drive the claude command,'
	@echo '                  the gateway with every vendor'\''s newest SDK, and them beside the'
	@echo '                  providers, and a batch on Ray, installing all (2.5 GB)'
	@echo 'make clients      drive real coding agents and SDKs through the gateway, installing them (2 GB), and'
	@echo '                  1,000 clients that are slow, that vanish, and whose upstream hangs;'
	@echo '                  CLIENTS_ARGS="codex", or --write for a new table; ALL=1 with slow agents (an'
	@echo '                  hour in all); SUITES=FOLDER with the SDKs'\'' own tests from checkouts'
	@echo 'make changelog    move the fragments of changelog.d/ to CHANGELOG.md (VERSION=0.2.0),'
	@echo '                  or show what that would be (DRAFT=1)'
	@echo 'make release      build every distribution into dist/, check and install it on every Python that'
	@echo '                  is here, with the newest and the oldest dependencies, run its tests from'
	@echo '                  its sdist, write an SBOM, and stop before uploading (PYTHONS="3.12 3.13")'
	@echo 'make constraints  resolve all dependencies anew and write constraints.txt'
	@echo 'make clean        remove .venv, caches and build products'

demo: $(VENV)/.installed
	@$(VENV)/$(BIN)/swink demo

# tests start hundreds of interpreters: what one has compiled is there for the next
test heavy: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.installed-dev
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

heavy: $(VENV)/.installed-dev
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal -m heavy $(PYTEST_ARGS)

fresh:
	$(PYTHON) -m lab.release.fresh_clone

coverage: $(VENV)/.installed-coverage
	@mkdir -p build/coverage
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal $(CORE_TESTS) --cov

core-mutants: $(VENV)/.installed-coverage
	$(PY) -m lab.mutants.core --count $(MUTANTS) --seed $(SEED) --processes $(PROCESSES) $(CORE_TESTS)

lint: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) tools/plain_words.py

format: $(VENV)/.installed-dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

types: $(VENV)/.installed-dev
	$(PY) -m mypy
	$(PY) -m pytest -q -m heavy $(TYPE_CHECKS)

wheels: $(VENV)/.installed-dev
	$(PY) -m lab.release.smoke_wheels

reference: $(VENV)/.installed-dev
	$(PY) tools/generate_reference.py

changelog: $(VENV)/.installed-release
	@test -n "$(VERSION)$(DRAFT)" || { echo "say which: make changelog VERSION=0.2.0; make changelog DRAFT=1 shows what it would be" >&2; exit 1; }
	$(PY) tools/changelog.py $(if $(DRAFT),--draft,"$(VERSION)")

release: $(VENV)/.installed-release
	$(PY) -m lab.release.rehearsal $(if $(TAG),--tag "$(TAG)") $(foreach version,$(PYTHONS),--python $(version))

docs: $(SITE)/.installed
	$(SITE)/$(BIN)/python tools/build_site.py

# Written by hand: the texts of generated pages are those of the code.
prose: $(SITE)/.installed
	$(SITE)/$(BIN)/codespell $$(git ls-files '*.md') swink_core
	$(SITE)/$(BIN)/proselint check --config .proselint.json \
		$$(git ls-files README.md CONTRIBUTING.md SECURITY.md 'docs/*.md' ':!docs/reference' ':!docs/providers')

picture: $(VENV)/.installed
	$(PY) tools/draw_demo.py
	$(PY) tools/draw_cut_stream.py

bench: $(VENV)/.installed-dev $(PEERS_INSTALLED)
	$(PY) -m lab.benchmarks.page
	$(PY) -m lab.benchmarks.instructions --check
	$(PY) -m lab.benchmarks.gateway
	$(PY) -m lab.benchmarks.start_up
	$(PY) -m lab.benchmarks.batch --calls $(CALLS)

chaos: $(VENV)/.installed-dev
	$(PY) contrib/swink-gateway/tests/chaos.py --minutes $(MINUTES)

kills: $(VENV)/.installed-dev
	$(PY) contrib/swink-batch/tests/kills.py --engine files
	$(PY) contrib/swink-batch/tests/kills.py --engine sqlite
	$(PY) contrib/swink-batch/tests/kill_submissions.py

reality: $(VENV)/.installed-dev
	$(PY) -m lab.reality $(FOLDERS)

fuzz: $(VENV)/.installed-dev
	$(PY) -m lab.fuzz --streams $(STREAMS) --refusals $(REFUSALS)
	$(PY) -m lab.fuzz --flips $(FLIPS) --corpus $(CORPUS_FLIPS) --seed $(SEED)
	$(PY) -m lab.fuzz --work $(LONGEST_ANSWER)
	$(PY) -m pytest -q -n auto -m hypothesis --hypothesis-profile=swink-fuzz $(PYTEST_ARGS)

transports: $(VENV)/.installed-dev
	$(PY) -m lab.transports --number $(RESPONSES) --seed $(SEED)
	SWINK_TRANSPORT_FAULTS=all $(PY) -m pytest -q -m "" contrib/swink-transport-httptools/tests/test_transport_faults.py

exchanges: $(VENV)/.installed-dev
	$(PY) -m lab.exchanges --seed $(SEED) --count $(EXCHANGES) --processes $(PROCESSES)

judge: $(VENV)/.installed-dev
	$(PY) -m swink_judge.matrix $(PROVIDERS)
	$(PY) -m lab.documented $(PROVIDERS)

mutants: $(VENV)/.installed-dev $(PEERS)/langchain-tests/.installed
	$(PY) -m lab.mutants.faulty
	$(PY) -m lab.mutants.packages lab/mutants/three_packages.toml $(PEERS)/langchain-tests/$(BIN)/python
	$(PY) -m lab.mutants.packages lab/mutants/blind.toml
	$(PY) -m lab.mutants.packages lab/mutants/blind_second.toml
	$(PY) -m lab.mutants.providers $(PROVIDERS)

$(PEERS)/langchain-tests/.installed: lab/mutants/langchain-tests.txt $(VENV)/.checkout
	@echo "installing langchain-tests into $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check -r $< $(OR_FAIL)
	@touch $@

scoreboard: $(VENV)/.installed-dev $(PEERS_INSTALLED)
	$(PY) -m lab.peers.scoreboard
	$(PY) -m lab.peers.judged

moving: $(VENV)/.installed-dev $(foreach peer,litellm langchain llm pydantic-ai,$(PEERS)/$(peer)/.installed)
	$(PY) -m pytest -q -m "" tests/test_moving.py

$(PEERS)/%/.installed: lab/peers/%.txt $(VENV)/.checkout
	@echo "installing $* into $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check -r $< $(OR_FAIL)
	@touch $@

counterparts: $(VENV)/.installed-dev $(COUNTERPARTS)/.installed $(RAY)/.installed $(SDKS_INSTALLED)
	@command -v prometheus >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends prometheus; } || { echo "Prometheus is not here, and apt cannot install it: install it by hand" >&2; exit 1; }
	@for program in haproxy redis-server; do command -v $$program >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$program; } || { echo "$$program is not here, and apt cannot install it: install it by hand" >&2; exit 1; }; done
	$(PY) -m lab.counterparts.telemetry
	$(PY) -m lab.counterparts.gateway
	$(PY) -m pytest -q contrib/swink-recorder/tests/test_cassette.py
	$(PY) -m lab.counterparts.claude_code
	$(PY) -m lab.counterparts.vendor_sdks
	$(RAY)/$(BIN)/python -m lab.counterparts.ray_cluster

# Ray and all that it wants are its environment's own; swink comes from .venv.
$(RAY)/.installed: lab/counterparts/ray_cluster.txt $(VENV)/.installed-dev
	@echo "installing Ray, on which a batch is run, into $(@D)"
	@$(PY) -m venv $(@D)
	@$(@D)/$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check -r $< $(OR_FAIL)
	@$(PY) -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(@D)/$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/swink.pth
	@touch $@

clients: $(VENV)/.installed-dev $(CLIENTS)/npm/.installed $(CLIENTS)/aider/.installed $(CLIENTS)/sdks/.installed $(CLIENTS)/older/.installed
	ulimit -n $$(ulimit -Hn) || true; SWINK_GATEWAY_CROWD=1000 SWINK_GATEWAY_CLIENTS=chat \
		$(PY) -m pytest -q -n 2 -m "" contrib/swink-gateway/tests/test_crowd.py contrib/swink-gateway/tests/test_hostile_requests.py
	$(CLIENTS)/sdks/$(BIN)/python -m lab.clients.sdks $(CLIENTS_ARGS)
	$(CLIENTS)/older/$(BIN)/python -m lab.clients.sdks $(CLIENTS_ARGS)
	$(PY) -m lab.clients.objects $(filter --write,$(CLIENTS_ARGS))
	$(PY) -m lab.clients.drive $(if $(ALL),,--quick) $(CLIENTS_ARGS)
	$(if $(ALL),$(PY) -m lab.clients.turns $(CLIENTS_ARGS))
	$(if $(SUITES),$(PY) -m lab.clients.suites $(SUITES) $(filter --write,$(CLIENTS_ARGS)))

$(CLIENTS)/npm/.installed: lab/clients/package.json
	@command -v npm >/dev/null || { echo "coding agents come from npm, which is not here: install Node.js 20 or newer" >&2; exit 1; }
	@echo "installing coding agents into $(@D)"
	@mkdir -p $(@D) && cp $< $(@D)
	@npm install --prefix $(@D) --silent --no-audit --no-fund $(OR_FAIL)
	@touch $@

$(CLIENTS)/aider/.installed: lab/clients/aider.txt $(VENV)/.checkout
	@echo "installing aider into $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check -r $< $(OR_FAIL)
	@touch $@

# The SDKs and all that they want are the environment's own; swink comes from .venv.
$(CLIENTS)/sdks/.installed $(CLIENTS)/older/.installed: $(CLIENTS)/%/.installed: lab/clients/%.txt $(VENV)/.installed-dev
	@echo "installing SDKs and agent frameworks into $(@D)"
	@$(PY) -m venv $(@D)
	@$(@D)/$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check --upgrade -r $< $(OR_FAIL)
	@$(PY) -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(@D)/$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/swink-tests.pth
	@touch $@

# The SDK and all that it wants are its environment's own; swink and pytest come from .venv.
$(SDKS)/%/.installed: lab/counterparts/sdks/%.txt $(VENV)/.installed-dev
	@echo "installing the SDK $* into $(@D)"
	@$(PY) -m venv $(@D)
	@$(@D)/$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check --upgrade -r $< $(OR_FAIL)
	@$(PY) -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(@D)/$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/swink-tests.pth
	@touch $@

$(SITE)/.installed: tools/site.txt $(VENV)/.checkout
	@echo "installing zensical into $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check -r $< $(OR_FAIL)
	@touch $@

$(COUNTERPARTS)/.installed: lab/counterparts/telemetry.txt $(VENV)/.checkout
	@echo "installing Phoenix, which is shown our traces, into $(COUNTERPARTS)"
	@$(PYTHON) -m venv $(COUNTERPARTS)
	@$(COUNTERPARTS)/$(BIN)/python -m pip install $(QUIET) --disable-pip-version-check -r $< $(OR_FAIL)
	@touch $@

# The environment names its own folder in every script and editable install, so one
# that came along from another path is made again.
ifneq ($(shell cat $(VENV)/.checkout 2>/dev/null),$(CURDIR))
$(VENV)/.checkout: FORCE
endif
$(VENV)/.checkout:
	@command -v $(PYTHON) >/dev/null || { echo "swink needs Python 3.11 or newer; there is no '$(PYTHON)' here. Install it, or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("swink needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@if [ -e $@ ]; then rm -rf $(VENV); fi
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@printf '%s\n' '$(CURDIR)' > $@

$(VENV)/.installed: $(VENV)/.checkout $(PROJECTS) constraints.txt
	@echo "installing swink into $(VENV)"
	@$(PY) tools/dependency_group.py build > $(VENV)/build-requirements.txt
	@$(INSTALL) -c constraints.txt -r $(VENV)/build-requirements.txt $(OR_FAIL)
	@$(PY) tools/dependency_group.py run > $(VENV)/run-requirements.txt
	@$(INSTALL) -c constraints.txt --no-build-isolation $(EDITABLE) -r $(VENV)/run-requirements.txt $(OR_FAIL)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed tests/helpers/pyproject.toml
	@echo "installing the tools for development into $(VENV)"
	@$(INSTALL) -c constraints.txt --no-build-isolation -e ./tests/helpers $(OR_FAIL)
	@$(PY) tools/dependency_group.py dev > $(VENV)/dev-requirements.txt
	@$(INSTALL) -c constraints.txt -r $(VENV)/dev-requirements.txt $(OR_FAIL)
	@touch $@

$(VENV)/.installed-coverage: $(VENV)/.installed-dev
	@echo "installing coverage into $(VENV)"
	@$(PY) tools/dependency_group.py coverage > $(VENV)/coverage-requirements.txt
	@$(INSTALL) -c constraints.txt -r $(VENV)/coverage-requirements.txt $(OR_FAIL)
	@touch $@

$(VENV)/.installed-release: $(VENV)/.installed-dev
	@echo "installing the tools for a release into $(VENV)"
	@$(PY) tools/dependency_group.py release > $(VENV)/release-requirements.txt
	@$(INSTALL) -c constraints.txt -r $(VENV)/release-requirements.txt $(OR_FAIL)
	@touch $@

constraints:
	$(PYTHON) tools/constraints.py

clean:
	rm -rf $(VENV) $(PEERS) $(COUNTERPARTS) $(RAY) $(SDKS) $(CLIENTS) $(FINDINGS) $(SITE) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
