"""Lightning's strategies for sharded models, with their checkpoints in a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

from torchbucket.config import StoreConfig
from torchbucket.lightning.bucket_strategy import BucketStrategy
from torchbucket.lightning.package import pytorch
from torchbucket.public import public_in

if TYPE_CHECKING:
    from lightning.pytorch.core.optimizer import LightningOptimizer
    from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
else:
    LightningOptimizer = pytorch("core.optimizer").LightningOptimizer
    FSDPStrategy = pytorch("strategies").FSDPStrategy
    ModelParallelStrategy = pytorch("strategies").ModelParallelStrategy

__all__ = ["BucketFSDPStrategy", "BucketModelParallelStrategy"]


@public_in("torchbucket.lightning")
class BucketFSDPStrategy(BucketStrategy, FSDPStrategy):
    """Lightning's ``FSDPStrategy``, with its checkpoints in a bucket: ``Trainer(strategy=BucketFSDPStrategy(...))``.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        use_async: let the training go on while a checkpoint is sent. One is under way at a time; its failure is raised
            by the next save or load, or at the end of ``fit``.
        state_dict_type: ``"sharded"``, where Lightning's default is ``"full"``: each rank saves its own part, into a
            directory. ``"full"``: rank 0 saves one object with all of it, by ``BucketCheckpointIO``.
        options: as of ``FSDPStrategy``.

    Raises:
        ConfigError: a wrong setting.
    """

    _model_name: ClassVar[str] = "model"
    _whole_is_for_all: ClassVar[bool] = True

    def __init__(
        self,
        *,
        config: StoreConfig | None = None,
        use_async: bool = False,
        state_dict_type: Literal["full", "sharded"] = "sharded",
        **options: Any,
    ) -> None:
        super().__init__(state_dict_type=state_dict_type, **options)
        self._keep_in_bucket(config, use_async=use_async)

    @property
    def saves_in_shards(self) -> bool:
        """Whether each rank saves its own part, and not the first one all."""
        return self._state_dict_type == "sharded"

    def _new_stager(self) -> AsyncStager:
        return BlockingAsyncStager()  # which knows the sharded tensors of this kind of FSDP


@public_in("torchbucket.lightning")
class BucketModelParallelStrategy(BucketStrategy, ModelParallelStrategy):
    """Lightning's ``ModelParallelStrategy`` (FSDP2, tensor parallelism), with its checkpoints in a bucket.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        use_async: let the training go on while a checkpoint is sent. One is under way at a time; its failure is raised
            by the next save or load, or at the end of ``fit``. From GPUs the state is copied into pinned memory, which
            is kept for the next save.
        options: as of ``ModelParallelStrategy``; ``save_distributed_checkpoint=False``: rank 0 saves one object with
            all of it, by ``BucketCheckpointIO``.

    Raises:
        ConfigError: a wrong setting.
    """

    _model_name: ClassVar[str] = "state_dict"
    _whole_is_for_all: ClassVar[bool] = False

    def __init__(self, *, config: StoreConfig | None = None, use_async: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._keep_in_bucket(config, use_async=use_async)

    @property
    def saves_in_shards(self) -> bool:
        """Whether each rank saves its own part, and not the first one all."""
        return self._save_distributed_checkpoint

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """The model's state; of a sharded one the tensors themselves, which nobody has to copy before they are sent."""
        if not self.saves_in_shards:
            return super().lightning_module_state_dict()
        return get_model_state_dict(self._wrapped_model)

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """An optimizer's state; likewise."""
        if not self.saves_in_shards:
            return super().optimizer_state(optimizer)
        bare = optimizer.optimizer if isinstance(optimizer, LightningOptimizer) else optimizer
        return get_optimizer_state_dict(self._wrapped_model, bare)
