# Every target works from a clean clone; CI calls the same ones.
python := .venv/bin/python
paths := src tests utils
site := --quiet --keep-going --fail-on-warning --nitpicky --fresh-env --jobs auto --conf-dir utils/documentation_site --doctree-dir build/doctrees

# As utils/environment.sh does, which says why.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: environment lint format types contracts collect test nightly conformance test-docs docs bench-smoke bench-engines bench-testbed constraints

environment:
	@bash -c 'source utils/environment.sh'

lint: environment
	.venv/bin/ruff check $(paths)
	.venv/bin/ruff format --check $(paths)

format: environment
	.venv/bin/ruff check --fix $(paths)
	.venv/bin/ruff format $(paths)

types: environment
	.venv/bin/mypy

contracts: environment
	.venv/bin/lint-imports

# Whether all tests can be imported; they are compiled then, which each process of pytest would do for itself.
collect: environment
	@tests=$$($(python) -m pytest --collect-only --quiet) || { echo "$$tests"; exit 1; }

test:
	./utils/run_tests.sh

nightly:
	./utils/run_tests.sh --nightly

conformance:
	./utils/run_tests.sh tests/conformance

test-docs:
	./utils/run_tests.sh tests/unit/repository tests/integration/repository

# The site, in build/site. What builds it is installed here, since nothing else needs it.
docs: environment
	$(python) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	$(python) -m sphinx $(site) . build/site
	@echo "the site is in build/site/index.html"

bench-smoke:
	./utils/run_dataset_benchmarks.sh client=torchbucket-map,boto3 'repeat=range(1)' data.num_samples=64
	./utils/run_listing_benchmarks.sh client=torchbucket,boto3 'repeat=range(1)' names.count=3k
	./utils/run_checkpoint_benchmarks.sh client=torchbucket,boto3 'repeat=range(1)' checkpoint=small
	./utils/run_lightning_benchmarks.sh client=torchbucket,disk 'repeat=range(1)' checkpoint=small
	./utils/run_dcp_benchmarks.sh client=torchbucket,disk 'repeat=range(1)' checkpoint=small action=save,load

bench-engines: environment
	$(python) utils/measure_engines.py

bench-testbed: environment
	$(python) utils/measure_testbed.py

# Resolve everything anew and keep the outcome: pip is slow at this, so it is done rarely and by hand.
constraints:
	rm -rf .venv-constraints && python3 -m venv --upgrade-deps .venv-constraints
	.venv-constraints/bin/pip install "$$(grep '^torch==' constraints.txt)"
	.venv-constraints/bin/pip install -e '.[dev,docs]'
	{ grep '^#' constraints.txt; .venv-constraints/bin/pip freeze --exclude-editable --all | grep -v '^setuptools==' | sed 's/+cpu//'; } > constraints.new
	mv constraints.new constraints.txt && rm -rf .venv-constraints
