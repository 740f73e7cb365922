"""Sinks: tables of other services that a run's results are sent to when it is over, or later by ``bucketbench push``.

A sink is one class, named by a file in ``conf/sink/``; :mod:`bucketbench.sinks.protocol` says what it provides.
"""
