# SPDX-License-Identifier: Apache-2.0
#
# `make demo` and `make test` need only Python 3.10 or newer with venv and pip,
# make, and (for the compiled engine) a C++ compiler. Both make the environment
# on first use.

PYTHON ?= python3
VENV ?= .venv
OLDEST_VENV ?= .venv-oldest
DOCS_VENV ?= .venv-docs
RAY_VENV ?= .venv-ray
HUB_VENV ?= .venv-hub
MAPIE_VENV ?= .venv-mapie
PYTEST_ARGS ?=
FUZZ_ARGS ?=
# Processes of a test run, about 1 GB each. A file's tests stay together.
WORKERS ?= 2
export TF_CPP_MIN_LOG_LEVEL ?= 3

BIN := $(VENV)/bin
PYTEST := -m pytest -n $(WORKERS) --dist loadfile
OLDEST_BIN := $(OLDEST_VENV)/bin
# Errors are shown; progress and warnings are not.
PIP_INSTALL := -m pip install -qq --disable-pip-version-check --no-input
# The package is built in the environment itself, so what it is built with (see
# `build-system` in pyproject.toml) comes first.
BUILD_TOOLS := scikit-build-core cmake ninja tensorflow
NATIVE := $(shell find kernels -type f \
	\( -name '*.h' -o -name '*.cc' -o -name '*.cu' \) 2>/dev/null)
BUILD_INPUTS := pyproject.toml CMakeLists.txt \
	$(shell find cmake kernels -type f ! -name '*.md' 2>/dev/null)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test test-cpp test-pure test-slow test-all test-gpu test-oldest \
	test-ray test-hub test-mapie test-browser fuzz lint \
	format golden docs bench clean

help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' \
		$(MAKEFILE_LIST)

install: $(VENV)/.installed  ## Make .venv with the pinned dependencies.

demo: $(VENV)/.installed  ## Train the Mauna Loa CO2 model; write demo.png.
	@$(BIN)/python examples/mauna_loa.py

# The arithmetic alone, once as it ships and once under sanitizers. The GPU
# kernels, run on the CPU, bring sanitizers of their own.
test-cpp: $(VENV)/.installed  ## Build and run the C++ tests.
	@for sanitize in OFF ON; do \
		build=build/cpp-$$sanitize; mkdir -p build; \
		cuda=ON; test $$sanitize = OFF || cuda=OFF; \
		$(BIN)/cmake -S . -B $$build -DKBD_TESTS=ON \
			-DKBD_SANITIZE=$$sanitize -DKBD_CUDA_TESTS=$$cuda \
			> $$build.log 2>&1 && \
		$(BIN)/cmake --build $$build -j 2 >> $$build.log 2>&1 && \
		$(BIN)/ctest --test-dir $$build/kernels --output-on-failure -Q \
			-O $$build.ctest || { cat $$build.log $$build.ctest; exit 1; }; \
		tail -n 3 $$build.ctest; \
	done

test: $(VENV)/.installed test-cpp  ## Run the tests on the newest versions.
	@$(BIN)/python $(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-pure: $(VENV)/.installed  ## Run what depends on the engine without the op library.
	@KBD_LIBRARY=off $(BIN)/python $(PYTEST) -m "engine and not slow" $(PYTEST_ARGS)

test-slow: $(VENV)/.installed  ## Run only the slow tests.
	@$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

test-all: $(VENV)/.installed  ## Run all tests, slow ones too.
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-gpu: $(VENV)/.installed  ## Build, test and time the GPU kernels, on a GPU.
	@$(BIN)/python benchmarks/gpu_check.py

test-oldest: $(OLDEST_VENV)/.installed  ## Run the tests on the oldest versions.
	@$(OLDEST_BIN)/python $(PYTEST) -m "not slow" $(PYTEST_ARGS)

# Ray is large and serves one example: it has an environment of its own.
test-ray: $(RAY_VENV)/.installed  ## Run the example of Ray Data.
	@$(RAY_VENV)/bin/python $(PIP_INSTALL) -c requirements/newest.txt \
		'ray[data]>=2.60,<3'
	@$(RAY_VENV)/bin/python -m pytest tests/examples/check_ray_data.py

# KerasHub brings tokenizers and TensorFlow Text, which nothing else needs. It
# needs Python 3.11.
test-hub: $(HUB_VENV)/.installed  ## Run the tests on KerasHub's models.
	@$(HUB_VENV)/bin/python $(PIP_INSTALL) -c requirements/newest.txt \
		'keras-hub>=0.32,<0.33'
	@$(HUB_VENV)/bin/python -m pytest tests/upstream/check_keras_hub.py \
		$(PYTEST_ARGS)

# MAPIE serves one page of the documentation.
test-mapie: $(MAPIE_VENV)/.installed  ## Run the page on MAPIE, and compare with it.
	@$(MAPIE_VENV)/bin/python $(PIP_INSTALL) -c requirements/newest.txt \
		'mapie>=1.6,<2'
	@$(MAPIE_VENV)/bin/python -m pytest tests/docs/check_mapie_page.py \
		$(PYTEST_ARGS)

# Chromium is no Python package: `apt-get install chromium`.
test-browser: $(VENV)/.installed  ## Open the HTML report in Chromium.
	@$(BIN)/python -m pytest tests/diagnostics/check_browser.py $(PYTEST_ARGS)

# For instance FUZZ_ARGS="--models 200 --first-seed 5000", or "--seed 17" alone.
fuzz: $(VENV)/.installed  ## Compare 2,000 random models with brute force.
	@$(BIN)/python -m tests.fuzz --workers $(WORKERS) $(FUZZ_ARGS)

lint: $(VENV)/.installed  ## Run ruff, mypy and clang-format, changing nothing.
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet --diff .
	@$(BIN)/mypy
	@$(if $(NATIVE),$(BIN)/clang-format --dry-run -Werror $(NATIVE))

format: $(VENV)/.installed  ## Put the code in the project's form.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(if $(NATIVE),$(BIN)/clang-format -i $(NATIVE))

golden: $(VENV)/.installed  ## Rewrite the golden list of public names.
	@$(BIN)/python -m tests.update_golden

# The site needs no TensorFlow: it reads docstrings, and imports nothing.
docs: $(DOCS_VENV)/.installed  ## Build the documentation in build/site.
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	@echo "build/site/index.html"

bench: $(VENV)/.installed  ## Time prediction; write benchmarks/results.
	@$(BIN)/python benchmarks/bench_predict.py
	@$(BIN)/python benchmarks/bench_fused.py
	@$(BIN)/python benchmarks/bench_predictor.py
	@$(BIN)/python benchmarks/bench_moments.py --only cost
	@$(BIN)/python benchmarks/moments_page.py
	@$(BIN)/python benchmarks/bench_accuracy.py
	@$(BIN)/python benchmarks/accuracy_page.py
	@$(BIN)/python benchmarks/readme_table.py

clean:  ## Remove environments, builds and caches.
	@rm -rf $(VENV) $(OLDEST_VENV) $(DOCS_VENV) \
		$(RAY_VENV) $(HUB_VENV) $(MAPIE_VENV) build dist _skbuild *.egg-info demo.png \
		.mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment is up to date when its stamp is newer than what it was made
# from. The dependencies and the package have a stamp each, so that a change in
# the sources rebuilds the package alone; it compiles in a folder that stays, so
# only what changed. tests/_core/test_instructions.py reads the objects there.
$(VENV)/.dependencies: CONSTRAINTS := requirements/newest.txt
$(OLDEST_VENV)/.dependencies: CONSTRAINTS := requirements/oldest.txt
$(RAY_VENV)/.dependencies: CONSTRAINTS := requirements/newest.txt
$(HUB_VENV)/.dependencies: CONSTRAINTS := requirements/newest.txt
$(MAPIE_VENV)/.dependencies: CONSTRAINTS := requirements/newest.txt
$(VENV)/.installed: CONSTRAINTS := requirements/newest.txt
$(OLDEST_VENV)/.installed: CONSTRAINTS := requirements/oldest.txt
$(RAY_VENV)/.installed: CONSTRAINTS := requirements/newest.txt
$(HUB_VENV)/.installed: CONSTRAINTS := requirements/newest.txt
$(MAPIE_VENV)/.installed: CONSTRAINTS := requirements/newest.txt
$(VENV)/.dependencies: requirements/newest.txt
$(RAY_VENV)/.dependencies: requirements/newest.txt
$(HUB_VENV)/.dependencies: requirements/newest.txt
$(MAPIE_VENV)/.dependencies: requirements/newest.txt
$(OLDEST_VENV)/.dependencies: requirements/oldest.txt

$(DOCS_VENV)/.installed: requirements/docs.txt
	@echo "Making $(@D) ..."
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python $(PIP_INSTALL) -r requirements/docs.txt
	@touch $@

%/.dependencies:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "Python 3.10 or newer is needed. Received: `$(PYTHON) --version`." \
			"Name another with 'make PYTHON=/path/to/python3'." >&2; exit 1; }
	@echo "Making $(@D) with the versions of $(CONSTRAINTS) (minutes, once) ..."
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python $(PIP_INSTALL) -c $(CONSTRAINTS) $(BUILD_TOOLS)
	@touch $@

%/.installed: %/.dependencies $(BUILD_INPUTS)
	@echo "Installing keras_bayesdrop into $(@D) ..."
	@PATH="$(CURDIR)/$(@D)/bin:$$PATH" $(@D)/bin/python $(PIP_INSTALL) \
		-c $(CONSTRAINTS) --no-build-isolation \
		--config-settings=build-dir=build/ops$(notdir $(@D)) \
		-e '.[dev,examples,plots,sklearn]'
	@touch $@
