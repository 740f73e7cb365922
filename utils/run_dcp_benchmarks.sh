#!/usr/bin/env bash
# Compare clients at saving and loading distributed checkpoints: dcp_simulated, or the scenario that comes first. Every
# other argument is a Hydra override; conf/dcp_simulated.yaml explains them:
#   ./utils/run_dcp_benchmarks.sh dcp_fsdp client=fsspec-s3fs,torchbucket ranks=2,4
scenario=dcp_simulated
if [[ ${1:-} == dcp_* ]]; then
  scenario=$1
  shift
fi
source "$(dirname "$0")/environment.sh"
exec bucketbench run "$scenario" "$@"
