# `make demo` and `make test` are the two commands; both make their own environment first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= out
MINUTES ?= 60
RUNS   ?= 5
ENGINE ?= $(firstword $(shell command -v podman docker 2>/dev/null))
IMAGE  ?= streamsketch:latest
FLINK  := .flink
# its workers, too, are of that environment
SPARK  := PYSPARK_PYTHON=$(abspath .spark/bin/python) SPARK_LOCAL_IP=127.0.0.1 .spark/bin/python
PRISM  := $(if $(shell command -v go 2>/dev/null),$(FLINK)/bin/prism-v2.77.0)
# Debian keeps the server's programs off the PATH
PG_BIN ?= $(patsubst %/initdb,%,$(lastword $(wildcard /usr/lib/postgresql/*/bin/initdb $(shell command -v initdb) \
            $(shell pg_config --bindir 2>/dev/null)/initdb)))
# all but Spark and the frameworks of federated learning, which have environments of their own
EXTRAS := $(foreach extra,beam kinesis objects parties postgres sklearn streams,--extra $(extra))
STAMP  := $(VENV)/.complete-$(shell $(PYTHON) -c 'import sys; print(*sys.version_info[:3], sep=".")' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help env demo parties-demo test test-for test-long test-salted faults audit test-tools test-streams coverage test-matrix test-arm flink pin-jars flink-demo stream-demo soak test-federated test-flink test-kinesis test-postgres test-spark web test-web test-web-mutants lint style types stubs dist image docs docs-links pictures generated format bench lock changelog clean

CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "streamsketch needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
# the environment of development, if there is one
DEMO_BIN = $(if $(wildcard $(STAMP)),$(BIN),.venv-demo/bin)
DEMO = pipelines.private_distances --output $(OUT)

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

env: $(STAMP)  ## make .venv with all that development needs, pinned by hash

# Modules are compiled when they are first imported: three of four never are.
$(STAMP): requirements.lock pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --only-binary :all: -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

demo: $(if $(wildcard $(STAMP)),env,.venv-demo/.complete)  ## which of sixteen destinations are served alike: private cosines on real data
	$(DEMO_BIN)/python -m $(DEMO)

# what the demo needs, a third of what development needs
.venv-demo/.complete: pipelines/requirements.lock pyproject.toml
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear .venv-demo
	.venv-demo/bin/python -m pip install --quiet --no-compile --require-hashes --only-binary :all: -r $<
	.venv-demo/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

parties-demo: env  ## five processes publish the sum of their flights with one noise, and none sees another's
	$(BIN)/python -m pipelines.parties_demo --input pipelines/data/flights.parquet

test: env  ## every law, doctest and README block; the other targets have the rest
	$(BIN)/python -m pytest -q -n auto --dist worksteal

test-for: env  ## what a change of a folder needs (FOLDER=streamsketch/report): its tests, those that import it, structure, growth
	$(BIN)/python -m tests.chosen '$(FOLDER)' -n auto --dist worksteal

test-long: env  ## larger versions of tests, marked long, and more examples of Hypothesis: for every night
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "long or hypothesis" --hypothesis-profile long

test-tools: env  ## pages, pictures, demos, the wheel, the reader in Go, the benchmarks' entries, and kernels as other processors get them
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "tools and not long" tests

test-streams: env $(PRISM)  ## streams on Prism, Beam's local runner with event time, which go builds in some 100 seconds
	@test -n "$(PRISM)" || { echo "There is no go on the PATH to build Prism, on which these tests run."; exit 1; }
	STREAMSKETCH_PRISM=$(PRISM) $(BIN)/python -m pytest -q -n auto --dist worksteal -m prism tests/beam/streams tests/jobs tests/clusters

test-salted: env  ## every test with other randomness, RUNS times: which fail, how often, beside the rates that they state (RUNS=5)
	$(BIN)/python -m tests.salted --runs $(RUNS)

audit: env  ## everything that checks a claim, with fresh randomness, in one table: cases, margins (AUDIT='Guarantees' for some)
	$(BIN)/python -m tests.audit $(AUDIT)

faults: env  ## put the faults of tests/faults into a copy, one by one: which do the tests notice? (FAULTS='privacy/ once/' for some)
	$(BIN)/python -m tests.faults $(FAULTS)

coverage: env  ## every test, with the branch coverage of all but compiled kernels; fails below 95 %
	$(BIN)/python -m pytest -q -n auto --dist worksteal --cov --cov-report=term:skip-covered --cov-report=html:$(OUT)/coverage

test-matrix: $(addprefix .matrix/tested-,3.11 3.12 3.13 3.14 lowest)  ## every test on other Pythons, and on the oldest dependencies (needs uv)

# A Python that is not on the PATH is left out, which the last line says.
.matrix/tested-3.%: .FORCE
	@command -v python3.$* >/dev/null || { echo "python3.$* is not on the PATH: not tested"; exit 0; }; \
	set -e; python3.$* -m venv --clear .matrix/3.$*; \
	.matrix/3.$*/bin/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements.lock; \
	.matrix/3.$*/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .; \
	.matrix/3.$*/bin/python -m pytest -q -n auto --dist worksteal

.matrix/tested-lowest: .FORCE
	$(PYTHON) -m venv --clear .matrix/lowest
	uv pip compile --quiet --python .matrix/lowest/bin/python --resolution lowest-direct $(EXTRAS) --no-header \
	  --no-emit-index-url --no-emit-find-links --output-file .matrix/lowest.txt pyproject.toml
	uv pip install --quiet --python .matrix/lowest/bin/python --only-binary :all: --requirements .matrix/lowest.txt --group dev
	.matrix/lowest/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	.matrix/lowest/bin/python -m pytest -q -n auto --dist worksteal

.PHONY: .FORCE
.FORCE:

test-arm:  ## hashing, projections, noise and the golden files on emulated ARM (needs Debian's qemu-user-static; slow)
	tests/on_arm64.sh .matrix/arm64 tests/golden tests/kernels tests/data tests/projections tests/privacy/test_digits.py

flink: $(FLINK)/lib/streamsketch.jar  ## fetch the jars of Flink and Kafka into .flink (220 MB, needs Java 17 and Maven)

$(FLINK)/lib/.complete: pipelines/flink/pom.xml pipelines/flink/jars.sha256
	@command -v javac >/dev/null && command -v mvn >/dev/null || \
	  { echo "Flink needs a Java 17 development kit, and Maven to fetch its jars; put javac and mvn on the PATH."; exit 1; }
	rm -rf $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(@D))
	cd $(@D) && sha256sum --quiet --check --strict $(abspath pipelines/flink/jars.sha256)
	@touch $@

$(FLINK)/lib/streamsketch.jar: $(FLINK)/lib/.complete $(wildcard pipelines/flink/java/*.java)
	javac -d $(FLINK)/classes -cp '$(FLINK)/lib/*' $(filter %.java,$^)
	jar --create --file $@ -C $(FLINK)/classes .

pin-jars:  ## fetch the jars that the pom names, and write their checksums: look at them before you commit
	rm -rf $(FLINK)/lib
	mvn -q -B -f pipelines/flink/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(FLINK)/lib)
	cd $(FLINK)/lib && sha256sum *.jar > $(abspath pipelines/flink/jars.sha256)

flink-demo: env flink  ## the demo on a Flink cluster of this machine: two task managers, gone afterwards
	$(BIN)/python -m tests.clusters --jars $(FLINK)/lib -- $(DEMO)

stream-demo: env flink  ## a week of flights through Kafka and Flink in a minute, with a task manager killed on the way
	$(BIN)/python -m pipelines.stream_demo --jars $(FLINK)/lib

soak: env flink  ## feed a stream for an hour at half load: delays, memory, checkpoint sizes, and whether they grow (MINUTES=60)
	$(BIN)/python -m tests.clusters.load soak --jars $(FLINK)/lib --minutes $(MINUTES) --out $(OUT)/soak.json

test-flink: env flink $(PRISM)  ## the distributed tests, on Flink with failures, and on Prism where go can build it
	@test -n "$(PRISM)" || echo "Prism is skipped: there is no go on the PATH to build it."
	STREAMSKETCH_FLINK_JARS=$(FLINK)/lib STREAMSKETCH_PRISM=$(PRISM) $(BIN)/python -m pytest -q tests/clusters

test-postgres: env  ## a team's ledger and streams' sinks, on a PostgreSQL server of this machine, gone afterwards
	@test -x "$(PG_BIN)/initdb" || { echo "There is no PostgreSQL server here: install its package, or say" \
	  "make test-postgres PG_BIN=FOLDER, the folder of initdb."; exit 1; }
	STREAMSKETCH_POSTGRES=$(PG_BIN) $(BIN)/python -m pytest -q tests/accounting/test_ledger_postgres.py tests/beam/streams/test_sinks.py tests/once/test_waiting_postgres.py

test-kinesis: env .kinesis/.complete  ## streams from a data stream of kinesalite, an emulator of Amazon Kinesis in JavaScript (needs node 20)
	STREAMSKETCH_KINESALITE=.kinesis/node_modules/kinesalite/cli.js $(BIN)/python -m pytest -q tests/jobs/test_kinesalite.py

.kinesis/.complete: tests/kinesis/package.json tests/kinesis/package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "There is no node here, with npm: version 20 or newer is needed."; exit 1; }
	mkdir -p $(@D) && cp $^ $(@D) && cd $(@D) && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

test-federated: .federated/.complete  ## federated learning in the simulators of Flower and NVIDIA FLARE, in an environment of its own (0.9 GB)
	.federated/bin/python -m pytest -q tests/integrations/test_flower.py tests/integrations/test_nvflare.py
	.federated/bin/python -m pipelines.federated.run

.federated/.complete: pipelines/federated/requirements.lock pyproject.toml
	$(PYTHON) -m venv --clear .federated
	.federated/bin/python -m pip install --quiet --require-hashes -r $<
	.federated/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

test-spark: .spark/.complete  ## sketches and streams of Spark on a cluster of two processes, in an environment of its own (1.3 GB; needs Java 17)
	@command -v java >/dev/null || test -n "$$JAVA_HOME" || { echo "There is no java here: Spark needs version 17 or newer."; exit 1; }
	$(SPARK) -m pytest -q tests/spark streamsketch/spark
	$(SPARK) -m pytest -q -m tools tests/docs/test_pages.py -k spark.md

.spark/.complete: tests/spark/requirements.lock pyproject.toml
	$(PYTHON) -m venv --clear .spark
	.spark/bin/python -m pip install --quiet --require-hashes -r $<
	.spark/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

web: web/node_modules/.complete  ## build the TypeScript package into web/dist: one minified file, and its types (needs node 20)
	cd web && npm run --silent build

test-web: web/node_modules/.complete  ## the TypeScript package: its types, its tests and the kit under node, and in Chromium where there is one
	cd web && npm run --silent check && npm run --silent test && npm run --silent package && npm run --silent page -- --check && npm run --silent browser && npm run --silent axe

test-web-mutants: web/node_modules/.complete  ## forget the factors of web/tests/mutants.json one by one: a case of the conformance kit must fail for each
	cd web && npm run --silent mutants

web/node_modules/.complete: web/package.json web/package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "There is no node here, with npm: version 20 or newer is needed."; exit 1; }
	cd web && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

$(FLINK)/bin/prism-%:
	GOBIN=$(abspath $(@D)) go install github.com/apache/beam/sdks/v2/go/cmd/prism@$*
	@mv $(@D)/prism $@

lint: types docs stubs style  ## ruff (all rules), mypy --strict, stubtest, spelling, and the documentation without a warning (faster with -j 2)

style: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files -z -- '*.py' '*.pyi' '*.md' '*.toml' '*.html' '*.css' Makefile | xargs -0 $(BIN)/codespell
	git ls-files -z -- '*.md' | xargs -0 $(BIN)/codespell --dictionary docs/words.txt

types: env
	$(BIN)/mypy

stubs: env
	$(BIN)/python -m mypy.stubtest --concise --mypy-config-file pyproject.toml --allowlist tests/stubtest.txt --ignore-unused-allowlist streamsketch

dist: env .bills/.complete  ## build both packages into out/dist, check them, try their wheels in empty environments, and list what these hold (TAG=v1.2.3: its version)
	$(BIN)/python -m tests.distributions $(OUT)/dist --bills .bills/bin/cyclonedx-py $(if $(TAG),--tag '$(TAG)')

image: env .bills/.complete  ## build the image of pipelines/container by podman or docker, try it, and list what it holds (IMAGE=name:tag, BASE=python@sha256:…)
	@test -n "$(ENGINE)" || { echo "There is no podman or docker on the PATH to build an image."; exit 1; }
	$(BIN)/python -m tests.image $(OUT)/image --engine '$(ENGINE)' --tag '$(IMAGE)' --bills .bills/bin/cyclonedx-py $(if $(BASE),--base '$(BASE)')

# the program that lists what an environment holds, and what it depends on
.bills/.complete: tests/bills/requirements.lock
	$(PYTHON) -m venv --clear .bills
	.bills/bin/python -m pip install --quiet --no-compile --require-hashes --only-binary :all: -r $<
	@touch $@

# A page that is not written again would lose its words in the index of the search.
docs: env  ## build the documentation into out/site; a warning fails, a reference to nothing too
	$(BIN)/python -m sphinx --write-all --builder html --fail-on-warning --keep-going --nitpicky --quiet docs $(OUT)/site
	@echo "The documentation is in $(OUT)/site/index.html."

docs-links: env  ## ask whether the pages' links to other sites still work (needs a network)
	$(BIN)/python -m sphinx --builder linkcheck --quiet docs $(OUT)/links

pictures: env  ## make the pictures of docs/gallery again
	$(BIN)/python docs/pictures.py

format: env  ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: env  ## speed beside peers and limits, as ratios within one run
	$(BIN)/python -m benchmarks speed

changelog: env  ## show what the next release's changelog will say
	$(BIN)/python -m towncrier build --draft --version next

generated: env  ## write every generated file: stubs, wire_pb2, the conformance kit, and with node the report's page
	$(BIN)/python -m tests.generated

# pip holds a package to its pin for an extra, too, if the pin names the extra
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-strip-extras \
             --no-emit-index-url --no-emit-find-links --no-header

lock:  ## pin every dependency again (needs uv)
	$(COMPILE) pyproject.toml $(EXTRAS) --group dev --output-file requirements.lock
	$(COMPILE) pyproject.toml --extra flower --extra nvflare --extra parties pipelines/federated/requirements.in \
	  --output-file pipelines/federated/requirements.lock
	$(COMPILE) pyproject.toml --extra beam pipelines/requirements.in --constraint requirements.lock \
	  --output-file pipelines/requirements.lock
	$(COMPILE) pyproject.toml --extra spark --extra beam tests/spark/requirements.in --output-file tests/spark/requirements.lock
	$(COMPILE) tests/bills/requirements.in --output-file tests/bills/requirements.lock
	$(COMPILE) pyproject.toml --extra streams --extra kinesis --extra postgres --extra objects --constraint requirements.lock \
	  --output-file pipelines/container/requirements.lock

clean:  ## remove everything that was made, except .flink, which is costly to fetch
	rm -rf $(VENV) .venv-demo $(OUT) web/dist web/out web/node_modules .matrix .federated .kinesis .spark .bills .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find streamsketch pipelines benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +
