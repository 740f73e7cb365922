"""The copy of a state that a save in the background reads: equal, apart from the state, in memory used again."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Future
from typing import Any

import pytest
import torch
from saved_states import same, training_state

from torchbucket import CheckpointError
from torchbucket.dcp import HostStager


def staged(stager: HostStager, state: dict[str, Any]) -> dict[str, Any]:
    copied = stager.stage(state)
    return copied.result(30) if isinstance(copied, Future) else copied


def clear(state: Any) -> None:
    if isinstance(state, torch.Tensor):
        state.zero_()
    elif isinstance(state, dict):
        list(map(clear, state.values()))
    elif isinstance(state, list | tuple):
        list(map(clear, state))


@pytest.mark.parametrize("options", [{}, {"shared": True}, {"overlap": True}], ids=lambda options: "".join(options))
def test_a_copy_is_equal_and_its_own(options: dict[str, bool]) -> None:
    stager = HostStager(**options)
    for seed in range(3):
        state = training_state(seed)
        copied = staged(stager, state)
        with torch.no_grad():
            clear(state)
        assert same(copied, training_state(seed))
    stager.close()


def test_memory_is_used_again_once_nobody_reads_it() -> None:
    stager = HostStager()
    state = {"weight": torch.ones(100_000), "count": 1}
    first = staged(stager, state)
    place = first["weight"].data_ptr()
    state["weight"].fill_(2)
    second = staged(stager, state)
    assert second["weight"].data_ptr() != place
    assert first["weight"].eq(1).all()
    place = second["weight"].data_ptr()
    del first, second
    assert staged(stager, state)["weight"].data_ptr() == place
    stager.close()


def test_memory_is_used_again_once_that_is_said() -> None:
    stager = HostStager()
    first = staged(stager, {"weight": torch.ones(100_000)})
    stager.recycle()
    assert staged(stager, {"weight": torch.zeros(100_000)})["weight"].data_ptr() == first["weight"].data_ptr()
    assert first["weight"].eq(0).all()
    assert staged(stager, {"weight": torch.ones(100_000)})["weight"].data_ptr() != first["weight"].data_ptr()


def test_a_smaller_state_does_not_keep_the_memory_of_a_large_one() -> None:
    stager = HostStager()
    staged(stager, {"weight": torch.ones(1 << 20)})
    copied = staged(stager, {"weight": torch.ones(1000)})
    assert copied["weight"].untyped_storage().nbytes() < 8192
    stager.close()
    assert copied["weight"].eq(1).all()


def test_a_view_takes_what_it_shows_and_tied_weights_are_copied_once() -> None:
    stager = HostStager()
    weight = torch.arange(1_000_000.0)
    copied = staged(stager, {"view": weight[10:20], "tied": [weight[10:20], weight.view(torch.int32)[10:20]]})
    assert copied["view"].untyped_storage().nbytes() == 2 * 64
    assert copied["view"] is copied["tied"][0]
    assert torch.equal(copied["tied"][1].view(torch.float32), weight[10:20])


@pytest.mark.parametrize("shared", [False, True])
def test_there_may_be_nothing_to_copy(shared: bool) -> None:
    stager = HostStager(shared=shared)
    assert staged(stager, {}) == {}
    copied = staged(stager, {"none": torch.empty(0, 3), "count": 2})
    assert (copied["none"].shape, copied["count"]) == ((0, 3), 2)
    stager.close()


class Tagged(torch.Tensor):
    """A class of tensors that somebody else made."""


def test_what_is_no_plain_tensor_is_copied_as_pytorch_does() -> None:
    stager = HostStager()
    sparse = torch.eye(3).to_sparse()
    tagged = torch.ones(3).as_subclass(Tagged)
    held = {"set": {1, 2}, "bytes": bytearray(b"12")}
    copied = staged(stager, {"sparse": sparse, "tagged": tagged, "held": held})
    tagged.zero_()
    held["bytes"][0] = 0  # type: ignore[index]
    assert torch.equal(copied["sparse"].to_dense(), torch.eye(3))
    assert copied["tagged"].tolist() == [1, 1, 1]
    assert copied["held"] == {"set": {1, 2}, "bytes": bytearray(b"12")}
    stager.close()


def test_a_tensor_whose_memory_was_freed_is_named() -> None:
    freed = torch.ones(5)
    freed.untyped_storage().resize_(0)
    with pytest.raises(CheckpointError, match=r"'model\.weight' has the shape \(5,\), and its storage only 0 bytes"):
        HostStager().stage({"model": {"weight": freed}})


def _told(connection: Any) -> None:
    state = connection.recv()
    # Small, since torch's threads are not in a forked process.
    connection.send((float(state["weight"].sum()), state["weight"].untyped_storage().nbytes()))
    state["weight"].zero_()
    connection.send("done")


def test_another_process_reads_shared_memory_itself() -> None:
    stager = HostStager(shared=True)
    state = {f"tensor {number}": torch.full((1000,), 2.0) for number in range(2000)}
    state["weight"] = torch.ones(500)
    copied = staged(stager, state)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_told, args=(theirs,))
    process.start()
    ours.send(copied)  # all in one memory, hence one file descriptor, of which a process has some thousand
    assert ours.recv() == (500, copied["weight"].untyped_storage().nbytes())
    assert ours.recv() == "done"
    process.join()
    assert copied["weight"].eq(0).all()
    stager.close()
