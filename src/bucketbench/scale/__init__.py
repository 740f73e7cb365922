"""``bucketbench scale``: what a scenario would ask of a service with many ranks, worked out instead of run.

The scenario's own configuration says what is read, saved or listed, and by which settings of torchbucket;
``conf/scale``, ``conf/service`` and ``conf/prices`` say on how many ranks, within which limits and at what price.
docs/scale.md explains the arithmetic.
"""
