"""Whether a job measured what it says: rules, each with its limit and source, and the marks of those that it broke.

A rule is a function of the evidence that a job left, its raw records and what it tells of itself, so that results can
be judged again from them. docs/method.md lists the rules. Nothing here does I/O.
"""

from __future__ import annotations

from bucketbench.validity.evidence import Evidence
from bucketbench.validity.judgement import RULES, Validity, judge
from bucketbench.validity.outside import without_outside

__all__ = ["RULES", "Evidence", "Validity", "judge", "without_outside"]
