"""Result files: ``job_results.json`` of each job and ``run_results.json`` of a sweep, versioned, with a JSON Schema."""

from __future__ import annotations

from bucketbench.results.files import (
    JOB_RESULTS_FILE,
    RUN_RESULTS_FILE,
    SCHEMA_VERSION,
    read_job_results,
    schema,
    write_json,
)

__all__ = ["JOB_RESULTS_FILE", "RUN_RESULTS_FILE", "SCHEMA_VERSION", "read_job_results", "schema", "write_json"]
