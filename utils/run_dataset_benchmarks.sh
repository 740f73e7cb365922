#!/usr/bin/env bash
# Compare storage clients at reading a data set. Every argument is a Hydra override; conf/dataset.yaml explains them:
#   ./utils/run_dataset_benchmarks.sh client=boto3,torchbucket-map epochs=1 +disambiguator=try1
source "$(dirname "$0")/environment.sh"
exec bucketbench run dataset "$@"
