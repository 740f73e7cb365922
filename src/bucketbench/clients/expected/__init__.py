"""What torchbucket is expected to ask a service for, worked out by its own rules without a request.

For :mod:`bucketbench.scale`, which multiplies it by ranks. Tests compare it with what the testbed counts in real runs.
"""
