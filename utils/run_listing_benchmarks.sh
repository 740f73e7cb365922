#!/usr/bin/env bash
# Compare storage clients at listing a prefix. Every argument is a Hydra override; conf/listing.yaml explains them:
#   ./utils/run_listing_benchmarks.sh client=boto3,torchbucket names.count=200k network=listing_50ms
source "$(dirname "$0")/environment.sh"
exec bucketbench run listing "$@"
