"""What there is of checkpoints in a directory, by their files."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Final, Self

from torchbucket.config import StoreConfig, check_config
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.files_found import read_manifest, read_metadata
from torchbucket.dcp.huggingface.layout import find_layout
from torchbucket.dcp.huggingface.names import FILE_NAME, SHARDED_NAME
from torchbucket.dcp.manifest import MANIFEST_NAME, Manifest
from torchbucket.dcp.metadata_file import METADATA_NAME
from torchbucket.errors import CheckpointError, NotFoundError
from torchbucket.safetensors.places import INDEX_NAME
from torchbucket.store.protocol import ObjectInfo, Store
from torchbucket.store.shared import shared_store
from torchbucket.store.thread_pool import ThreadPool
from torchbucket.uri import Address, ObjectURI

__all__ = ["FoundCheckpoint", "find_checkpoints"]

_OWN_METADATA: Final = re.compile(r"__\d+" + re.escape(METADATA_NAME))
_OWN_MANIFEST: Final = re.compile(r"(?:__\d+)?" + re.escape(MANIFEST_NAME))
_SHARD: Final = re.compile(r"(?:.+/)?__\d+_\d+\.distcp")
_INNER_MARKER: Final = re.compile(rf".+/(?:__\d+)?(?:{re.escape(METADATA_NAME)}|{re.escape(MANIFEST_NAME)})")
_SHARDED_MANIFEST: Final = f"{SHARDED_NAME}/{MANIFEST_NAME}"
_TENSORS: Final = re.compile(rf"(?:{SHARDED_NAME}/)?{FILE_NAME.pattern}")
_STEP: Final = re.compile(r"(\d+)(?!.*\d)")
# What Lightning's ModelCheckpoint puts behind a name that is taken: "step=100-v1.ckpt".
_VERSION: Final = re.compile(r"-v\d+(?=(?:\.\w+)?\Z)")
_DELETED_AT_ONCE: Final = 16


class FoundCheckpoint:
    """What there is of a checkpoint: its files by their paths below it."""

    def __init__(self, directory: CheckpointDirectory, files: Mapping[str, ObjectInfo]) -> None:
        self.directory = directory
        self.files = files
        self.name = directory.uri.rpartition("/")[2]
        number = _STEP.search(_VERSION.sub("", self.name)) or _STEP.search(self.name)
        self.step = None if number is None else int(number[1])
        times = [info.last_modified_s for info in files.values() if info.last_modified_s is not None]
        self.modified_s = max(times, default=None)
        self._why_not: str | None = None
        self._manifests: dict[str, Manifest] | None = None
        self._can_be_told = True
        self.is_another_s = False
        """Whether another program has saved over it."""
        self.current: list[Manifest] = []
        """The manifests that belong to the metadata."""

    @classmethod
    def at(cls, directory: CheckpointDirectory) -> Self:
        """The one in a directory."""
        return cls(directory, _files(directory.store, directory.prefix))

    @property
    def is_ours(self) -> bool:
        """Whether we wrote it, as far as can be told: metadata that cannot be read may be good for somebody else."""
        self.why_not()
        return self._can_be_told and not self.is_another_s and any(map(_OWN_MANIFEST.fullmatch, self.files))

    def age_s(self) -> float:
        """How long ago its last file was written; nothing where that is not known."""
        return 0.0 if self.modified_s is None else time.time() - self.modified_s

    def manifests(self) -> dict[str, Manifest]:
        """The manifests that there are, one or one of each rank, by their names."""
        if self._manifests is None:
            read = {name: read_manifest(self.directory, name) for name in self.files if _OWN_MANIFEST.fullmatch(name)}
            self._manifests = {name: manifest for name, manifest in read.items() if manifest is not None}
        return self._manifests

    def why_not(self) -> str:
        """Why it cannot be loaded; empty where it can."""
        if self._why_not is None:
            self._why_not = self._missing()
        return self._why_not

    def _missing(self) -> str:
        if self._is_safetensors():
            return self._missing_of_safetensors()
        names = [METADATA_NAME]
        if METADATA_NAME not in self.files and any(map(_OWN_METADATA.fullmatch, self.files)):
            # Each rank was by itself, and has left a manifest before anything else.
            manifests = [name for name in self.files if _OWN_MANIFEST.fullmatch(name) and name != MANIFEST_NAME]
            names = [name.replace(MANIFEST_NAME, METADATA_NAME) for name in manifests]
            names = sorted({*names, *filter(_OWN_METADATA.fullmatch, self.files)})
        if missing := [name for name in names if name not in self.files]:
            return "; ".join(f"{name} is missing" for name in missing)
        sizes = {name: info.size_bytes for name, info in self.files.items()}
        for name in names:
            try:
                metadata = read_metadata(self.directory, name)
                manifest = self.manifests().get(name.replace(METADATA_NAME, MANIFEST_NAME))
            except (CheckpointError, NotFoundError) as error:
                self._can_be_told = isinstance(error, NotFoundError)  # which was removed a moment ago
                return str(error)
            needed = {place.relative_path for place in (metadata.storage_data or {}).values()}
            if manifest is None or manifest.save_id != getattr(metadata.storage_meta, "save_id", None):
                self.is_another_s = True
                manifest = Manifest(save_id="", files={})
            else:
                self.current.append(manifest)
                needed.update(manifest.files)  # what lies beside, which the metadata does not name
            if wrong := manifest.differences(sizes, needed):
                return "; ".join(wrong)
        return ""

    def _is_safetensors(self) -> bool:
        others = (_OWN_METADATA, _SHARD)
        if METADATA_NAME in self.files or any(pattern.fullmatch(name) for name in self.files for pattern in others):
            return False
        return INDEX_NAME in self.files or any(map(_TENSORS.fullmatch, self.files))

    def _missing_of_safetensors(self) -> str:
        try:
            found = find_layout(self.directory)
        except (CheckpointError, NotFoundError) as error:
            self._can_be_told = isinstance(error, NotFoundError)
            return str(error)
        if found.manifest is None:
            self.is_another_s = True
            if found.file_of is None:
                return f"{INDEX_NAME} is missing"
        else:
            self.current.append(found.manifest)
        sizes = {name: info.size_bytes for name, info in self.files.items()}
        return "; ".join((found.manifest or Manifest(save_id="", files={})).differences(sizes, found.names))

    def _own_tensors(self) -> list[str]:
        """The safetensors files that we wrote; others may have put some beside them."""
        if not self._is_safetensors():
            return []
        found = [("", manifest) for manifest in self.manifests().values()]
        if self._has_own_shards() and (of_shards := read_manifest(self.directory, _SHARDED_MANIFEST)) is not None:
            found.append((f"{SHARDED_NAME}/", of_shards))
        own = []
        for prefix, manifest in found:
            named = {f"{prefix}{name}" for name in manifest.files}
            if not named:  # A save that never ended has not told what it wrote.
                beside = {name for name in self.files if name.startswith(prefix)}
                named = {name for name in beside if FILE_NAME.fullmatch(name.removeprefix(prefix))}
            own += [name for name in self.files if name in named]
        return own

    def _has_own_shards(self) -> bool:
        return _SHARDED_MANIFEST in self.files and f"{SHARDED_NAME}/{METADATA_NAME}" not in self.files

    def remove(self) -> None:
        """Remove what we wrote, and nothing beside it."""
        store, names = self.directory.store, list(self.files)
        tensors = self._own_tensors()
        first = [name for name in names if name == METADATA_NAME or _OWN_METADATA.fullmatch(name)]
        last = [name for name in names if _OWN_MANIFEST.fullmatch(name)]
        if self._is_safetensors():
            first += [name for name in names if name == INDEX_NAME]
            last += [name for name in names if name == _SHARDED_MANIFEST and self._has_own_shards()]
        # What lies in this one's directory and is a checkpoint by itself.
        inner = tuple(f"{name.rpartition('/')[0]}/" for name in names if _INNER_MARKER.fullmatch(name))
        written = self._named_by_manifests().union(filter(_SHARD.fullmatch, names)).difference(first, last)
        between = [name for name in names if name in tensors or (name in written and not name.startswith(inner))]
        with ThreadPool(_DELETED_AT_ONCE, thread_name_prefix="torchbucket-prune") as pool:
            for group in (first, between, last):
                for _ in pool.map(lambda name: store.delete(self.files[name].key), group):
                    pass

    def _named_by_manifests(self) -> set[str]:
        try:
            return {name for manifest in self.manifests().values() for name in manifest.files}
        except CheckpointError:  # damaged: what it alone could name stays
            return set()


def find_checkpoints(uri: Address, config: StoreConfig | None) -> list[FoundCheckpoint]:
    """What there is of checkpoints in a directory, the oldest first."""
    check_config(config)
    base = ObjectURI.parse(uri)
    store = shared_store(base, config)
    prefix = f"{base.key.rstrip('/')}/".lstrip("/")
    by_name: dict[str, dict[str, ObjectInfo]] = {}
    for path, info in _files(store, prefix).items():
        name, _, file = path.partition("/")
        if name and file:
            by_name.setdefault(name, {})[file] = info
    found = []
    for name, files in by_name.items():
        if any(_is_of_a_checkpoint(file) for file in files):
            location = ObjectURI(scheme=base.scheme, bucket=base.bucket, key=f"{prefix}{name}")
            found.append(FoundCheckpoint(CheckpointDirectory(location=location, store=store), files))
    found.sort(key=lambda one: (one.step is not None, one.step or 0, one.modified_s or 0.0, one.name))
    return found


def _is_of_a_checkpoint(file: str) -> bool:
    patterns = (_OWN_METADATA, _OWN_MANIFEST, _SHARD, _TENSORS)
    return file in (METADATA_NAME, INDEX_NAME) or any(pattern.fullmatch(file) for pattern in patterns)


def _files(store: Store, prefix: str) -> dict[str, ObjectInfo]:
    """What is below a prefix, by the rest of its name."""
    return {info.key.removeprefix(prefix): info for info in store.list(prefix)}
