#!/usr/bin/env bash
# Compare clients at saving and loading a Lightning trainer's checkpoints. Every argument is a Hydra override; conf/lightning_checkpointing.yaml explains them:
#   ./utils/run_lightning_benchmarks.sh client=default-s3fs,torchbucket checkpoint.layers=100
source "$(dirname "$0")/environment.sh"
exec .venv/bin/bucketbench run lightning_checkpointing "$@"
