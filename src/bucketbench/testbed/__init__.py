"""A local server that speaks the S3 protocol to any client, with a network model; it shares no code with the rest."""

from bucketbench.testbed.launch import RunningTestbed, TestbedError, launch_testbed

__all__ = ["RunningTestbed", "TestbedError", "launch_testbed"]
