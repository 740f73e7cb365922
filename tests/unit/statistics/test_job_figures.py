"""Each figure of a job, from records of which the answer is known."""

from __future__ import annotations

import pytest
from statistics_records import operation, two_epochs, usage

from bucketbench.records import Figure, OperationKind, Phase
from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.statistics import GIB, MIB, ServerCounts


def test_every_figure_of_two_epochs() -> None:
    operations, samples = two_epochs()
    figures = FIGURES.of_job(
        operations,
        samples,
        server=ServerCounts(requests=50, bytes_out=3 * GIB, faults=2, warnings=0, requests_s=7.0),
    )
    assert {name: figure.value for name, figure in figures.items()} == pytest.approx(
        {
            "throughput_mibs": 512.0,
            "samples_per_s": 10.0,
            "latency_p50_s": 0.4,
            "latency_p95_s": None,
            "latency_p99_s": None,
            "latency_max_s": 0.5,
            "next_p50_s": None,
            "next_p95_s": None,
            "next_p99_s": None,
            "next_max_s": None,
            "time_to_first_batch_s": 0.45,
            "index_s": 0.5,
            "decode_s": 0.2,
            "wait_s": 0.9,
            "accelerator_utilisation_percent": None,
            "cpu_s": 5.0,
            "cpu_s_per_gib": 2.5,
            "peak_rss_mib": 300.0,
            "added_memory_mib": 240.0,
            "samples": 40.0,
            "content_mib": 2048.0,
            "errors": 0.0,
            "wall_s": 4.0,
            "network_received_mib": 2400.0,
            "network_sent_mib": 4.0,
            "server_requests": 50.0,
            "requests_in_flight": 1.75,
            "server_bytes_out_mib": 3072.0,
            "read_amplification": 1.5,
            "server_faults": 2.0,
            "server_warnings": 0.0,
            "gpu_utilisation_percent": None,
            "gpu_memory_mib": None,
        }
    )
    assert {name: figure.unit for name, figure in figures.items()} == FIGURES.units


def test_the_memory_of_a_fork_server_is_not_the_clients() -> None:
    operations = [
        operation(OperationKind.INDEX, 2, 3, phase=Phase.WARMUP, epoch=-1),
        operation(OperationKind.EPOCH, 10, 12),
    ]
    samples = [
        usage(0.0, 0.0, rss_mib=240),
        usage(1.0, 0.0, rss_mib=250),  # the client's library is loaded
        usage(1.9, 0.0, rss_mib=480),  # and the fork server runs
        usage(10.0, 1.0, rss_mib=500),
        usage(12.0, 2.0, rss_mib=560),
    ]
    server = operation(OperationKind.FORK_SERVER, 1.1, 1.8, phase=Phase.WARMUP, epoch=-1)
    assert FIGURES.of_job(operations, samples)["added_memory_mib"].value == 320
    assert FIGURES.of_job([server, *operations], samples)["added_memory_mib"].value == 90
    late = FIGURES.of_job([server, *operations], samples[3:])["added_memory_mib"]
    assert late.reason == "no usage sample was taken before the client was built"


def test_the_fork_servers_of_all_ranks_count_in_whatever_order_they_were_recorded() -> None:
    samples = [
        usage(at_s, 0.0, rss_mib=rss_mib)
        for at_s, rss_mib in ((0.0, 240), (1.0, 250), (1.9, 480), (3.0, 480), (4.5, 710), (10.0, 730), (12.0, 800))
    ]
    first, second = (
        operation(OperationKind.FORK_SERVER, started_s, started_s + 0.7, phase=Phase.WARMUP, epoch=-1)
        for started_s in (1.1, 3.1)
    )
    epoch = operation(OperationKind.EPOCH, 10, 12)
    for recorded in ([first, second, epoch], [second, first, epoch]):
        assert FIGURES.of_job(recorded, samples)["added_memory_mib"].value == 100


def test_nothing_recorded_gives_reasons_and_no_zero() -> None:
    figures = FIGURES.of_job([], [])
    assert figures.keys() == FIGURES.units.keys()
    assert all(figure.value is None and figure.reason for figure in figures.values())


def test_unmeasured_figures_all_have_the_reason() -> None:
    figures = FIGURES.unmeasured("killed by SIGKILL")
    assert figures == {name: Figure(unit=unit, reason="killed by SIGKILL") for name, unit in FIGURES.units.items()}


def test_bytes_and_time_of_failed_fetches_are_no_speed() -> None:
    operations = [
        operation(OperationKind.EPOCH, 0, 2),
        operation(OperationKind.FETCH, 0, 1, samples=3, content_bytes=MIB),
        operation(OperationKind.FETCH, 0, 0.001, samples=2, content_bytes=MIB, errors=1, error="reset"),
        operation(OperationKind.FETCH, 0, 60, errors=3, error="time-out"),
    ]
    figures = FIGURES.of_job(operations, [])
    assert figures["errors"].value == 4
    assert figures["samples"].value == 5
    assert figures["throughput_mibs"].value == 1
    assert figures["latency_max_s"].value == 1


def test_a_job_whose_every_sample_failed_has_no_speed() -> None:
    operations = [operation(OperationKind.EPOCH, 0, 2), operation(OperationKind.FETCH, 0, 1, errors=3, error="403")]
    figures = FIGURES.of_job(operations, [usage(0, 0), usage(2, 1)])
    assert figures["errors"].value == 3
    for name in ("throughput_mibs", "samples_per_s", "cpu_s_per_gib"):
        assert figures[name] == Figure(unit=FIGURES.units[name], reason="no sample arrived whole")
    assert figures["latency_p50_s"].reason == "no batch arrived whole"
    assert figures["cpu_s"].value == 1


def test_samples_that_could_not_be_decoded_are_errors() -> None:
    operations = [
        operation(OperationKind.FETCH, 0, 1, samples=3, content_bytes=3),
        operation(OperationKind.DECODE, 1, 2, samples=1, errors=2, error="not an image"),
    ]
    assert FIGURES.of_job(operations, [])["errors"].value == 2


@pytest.mark.parametrize(("count", "given"), [(99, False), (100, True)])
def test_no_p99_under_a_hundred_operations(count: int, given: bool) -> None:
    fetches = [operation(OperationKind.FETCH, 0, 1 + number, samples=1) for number in range(count)]
    p99 = FIGURES.of_job(fetches, [])["latency_p99_s"]
    assert (p99.value is not None) is given
    assert given or (p99.reason is not None and "99 were measured" in p99.reason)


def test_an_epoch_lasts_until_the_slowest_rank_is_done() -> None:
    operations = [
        operation(OperationKind.EPOCH, 0.0, 1.0, rank=0),
        operation(OperationKind.EPOCH, 0.5, 4.0, rank=1),
        operation(OperationKind.FETCH, 0.0, 1.0, samples=1, content_bytes=8 * MIB, rank=0),
        operation(OperationKind.FETCH, 0.5, 4.0, samples=1, content_bytes=8 * MIB, rank=1),
        operation(OperationKind.INDEX, 0.0, 0.1, rank=0),
        operation(OperationKind.INDEX, 0.0, 0.3, rank=1),
    ]
    figures = FIGURES.of_job(operations, [])
    assert figures["wall_s"].value == 4
    assert figures["throughput_mibs"].value == 4
    assert figures["index_s"].value == pytest.approx(0.3)


def test_the_first_batch_is_that_of_the_rank_that_waits_longest() -> None:
    epochs = [operation(OperationKind.EPOCH, 1, 5, rank=rank) for rank in range(2)]
    waits = [
        operation(OperationKind.WAIT, 1, ended_s, rank=rank) for rank, ended_s in ((0, 1.5), (0, 2), (1, 3), (1, 4))
    ]
    assert FIGURES.of_job([*epochs, *waits], [])["time_to_first_batch_s"].value == 2


def test_counters_are_read_from_the_last_sample_before_an_epoch_to_the_first_after_it() -> None:
    operations = [operation(OperationKind.EPOCH, 1, 3), operation(OperationKind.FETCH, 1, 3, samples=1)]
    samples = [usage(-1, 0), usage(0.9, 2), usage(2, 3), usage(3.1, 8), usage(9, 50)]
    figures = FIGURES.of_job(operations, samples)
    assert figures["cpu_s"].value == 6
    assert figures["network_received_mib"].reason == "the host's network counters could not be read"


def test_epochs_without_a_sample_between_them_do_not_count_twice() -> None:
    operations = [operation(OperationKind.EPOCH, start_s, start_s + 1, epoch=start_s) for start_s in (1, 2, 5)]
    samples = [usage(0, 0), usage(1.5, 1), usage(2.5, 2), usage(4, 7), usage(5, 100), usage(6, 101)]
    assert FIGURES.of_job(operations, samples)["cpu_s"].value == 8  # 7 until 4, then 1 from 5 to 6


def test_samples_that_do_not_span_the_epochs_give_no_cpu_time() -> None:
    operations = [
        operation(OperationKind.EPOCH, 1, 3),
        operation(OperationKind.FETCH, 1, 3, samples=1, content_bytes=1),
    ]
    for samples in ([usage(2, 0), usage(4, 1)], [usage(0, 0), usage(2, 1)], []):
        assert (
            FIGURES.of_job(operations, samples)["cpu_s"].reason == "the usage samples do not span the measured epochs"
        )


def test_gpu_figures_are_of_the_measured_epochs() -> None:
    operations = [operation(OperationKind.EPOCH, 10, 12)]
    samples = [
        usage(0, 0, gpu_utilisation_percent=100.0, gpu_memory_bytes=9 * GIB),
        usage(10, 0, gpu_utilisation_percent=20.0, gpu_memory_bytes=GIB),
        usage(12, 0, gpu_utilisation_percent=40.0, gpu_memory_bytes=2 * GIB),
        usage(20, 0, gpu_utilisation_percent=100.0, gpu_memory_bytes=9 * GIB),
    ]
    figures = FIGURES.of_job(operations, samples)
    assert figures["gpu_utilisation_percent"].value == 30
    assert figures["gpu_memory_mib"].value == 2048


def test_failed_indexing_and_an_epoch_without_a_first_batch_have_reasons() -> None:
    operations = [
        operation(OperationKind.INDEX, 0, 1, phase=Phase.WARMUP, error="no such bucket"),
        operation(OperationKind.EPOCH, 1, 2),
    ]
    figures = FIGURES.of_job(operations, [])
    assert figures["index_s"].reason == "indexing failed"
    assert figures["time_to_first_batch_s"].reason == "no wait for a first batch was recorded"
