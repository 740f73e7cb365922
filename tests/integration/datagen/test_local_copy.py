"""The samples as plain files lie where they were asked for, whatever the folder is called."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from bucketbench.clients.disk import Disk
from bucketbench.clients.protocol import Target
from bucketbench.datagen import DatasetSpec
from bucketbench.scenarios.dataset.job import LocalCopy
from bucketbench.scenarios.dataset.local_copy import with_local_copy

SPEC = DatasetSpec(num_samples=3, sample_size_bytes=10, image_format="bytes")


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    odd = tmp_path / "a b+ü#%41?;=&"
    job = SimpleNamespace(
        client=SimpleNamespace(name="disk"),
        target=Target(scheme="s3", bucket="b", prefix="p/"),
        local_copy=LocalCopy(directory=str(odd / "local" / "set"), spec=SPEC.to_json()),
    )
    target = with_local_copy(job, Disk())  # type: ignore[arg-type]  # what it needs of a job
    files = Disk().dataset(target)
    assert [files[index][0] for index in range(3)] == ["000000000.bin", "000000001.bin", "000000002.bin"]
    assert list(tmp_path.iterdir()) == [odd]
    assert {"set", "set.manifest.jsonl"} <= {path.name for path in (odd / "local").iterdir()}
