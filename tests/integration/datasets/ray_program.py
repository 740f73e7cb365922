"""Reads through Ray Train's loaders on two local workers, as a user's script would.

Usage: python ray_program.py URI DIRECTORY

Prints, for each way of reading, what each rank was given in two epochs.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

RANKS = 2


def read_on_a_rank(settings: dict[str, str]) -> None:
    import ray.train.torch

    sys.path.insert(0, settings["programs"])
    from framework_program import streams, two_epochs

    found = {}
    for kind, make in streams(settings["uri"]).items():
        if kind != "given":
            for workers in (0, 2):
                loader = ray.train.torch.prepare_data_loader(make(workers), move_to_device=False)
                found[f"{kind} {workers}"] = two_epochs(loader)
    rank = ray.train.get_context().get_world_rank()
    Path(settings["directory"], f"told.{rank}").write_text(json.dumps(found))


def main() -> None:
    import ray
    import ray.train
    from ray.train.torch import TorchConfig, TorchTrainer

    uri, directory = sys.argv[1:]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    temporary = tempfile.mkdtemp(prefix="ray")  # its sockets' paths may have 107 bytes
    ray.init(
        address="local",
        num_cpus=RANKS,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        _temp_dir=temporary,
        object_store_memory=100 << 20,
    )
    trainer = TorchTrainer(
        read_on_a_rank,
        train_loop_config={"uri": uri, "directory": directory, "programs": str(Path(__file__).parent)},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=RANKS),
        run_config=ray.train.RunConfig(storage_path=f"{directory}/runs", name="reading"),
    )
    trainer.fit()
    ray.shutdown()
    shutil.rmtree(temporary, ignore_errors=True)
    by_rank = [json.loads(Path(directory, f"told.{rank}").read_text()) for rank in range(RANKS)]
    print(json.dumps({way: [found[way] for found in by_rank] for way in by_rank[0]}))


if __name__ == "__main__":
    main()
