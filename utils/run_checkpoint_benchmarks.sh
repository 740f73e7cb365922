#!/usr/bin/env bash
# Compare storage clients at saving and loading checkpoints. Every argument is a Hydra override; conf/pytorch_checkpointing.yaml explains them:
#   ./utils/run_checkpoint_benchmarks.sh client=boto3,torchbucket checkpoint.layers=100
source "$(dirname "$0")/environment.sh"
exec bucketbench run pytorch_checkpointing "$@"
