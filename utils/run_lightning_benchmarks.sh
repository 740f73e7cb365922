#!/usr/bin/env bash
# Compare clients at saving and loading a Lightning trainer's checkpoints: lightning_checkpointing, or the scenario that
# comes first. Every other argument is a Hydra override; conf/lightning_checkpointing.yaml explains them:
#   ./utils/run_lightning_benchmarks.sh client=default-s3fs,torchbucket checkpoint.layers=100
#   ./utils/run_lightning_benchmarks.sh lightning_fsdp ranks=2,4
scenario=lightning_checkpointing
if [[ ${1:-} == lightning_* ]]; then
  scenario=$1
  shift
fi
source "$(dirname "$0")/environment.sh"
exec bucketbench run "$scenario" "$@"
