"""Compare what results state with the testbed's own log of requests: the tables of docs/results/truth.md.

python utils/measure_truth.py multirun/truth --into docs/results/truth.md    # all clients, 70 minutes of waiting
python utils/measure_truth.py multirun/truth --only listing dcp_fsdp --clients torchbucket s3fs
python utils/measure_truth.py multirun/truth --report                        # of the jobs that are there
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from result_pages import write_page
from truth_measurement.comparison import TOLERANCES, Comparison, compared
from truth_measurement.sweeps import LOG_FILE, PLANS, Plan, Sweep, clients_of

from bucketbench.results.raw import read_raw

TARGETS = {"local": "s3", "local_gs": "gs"}

TEXT = """\
Every client of every scenario that runs on one machine without a mounted bucket and delivers objects, names or
states as they are stored, against the testbed: what its results
state, and by how much that differs from the testbed's log of requests (`=`: not at all). Results are made of the
harness's own clocks, of what it counted as delivered, and of the testbed's counters, read around each epoch, listing,
save and load; the log is a second witness, entry by entry, of which the harness reads nothing.

- *content bytes*: what is counted as delivered, or as saved and loaded. Of the log: the distinct bytes of objects that
  were sent in answers with status 200 or 206 (what a client reads twice counts once), and the bytes of bodies that
  wrote objects. What a file of a checkpoint has beside its tensors is in the log alone. Names have no bytes.
- *wire bytes*: bytes of bodies that the server sent, or received of a save. *Requests*: how many it counted, and *by
  operation*, each under what it asked for.
- *seconds*: the duration that is stated. Of the log: from the arrival of the first request to the end of the last
  answer. What a client does itself before and after, such as serialising a state before it sends any of it, is in the
  first alone; the network is so slow here (0.75 to 6 MiB/s, 50 ms; listings 2 to 8 s a page) that this is to disappear
  in it.

Agreement is 0.1 % for bytes and requests, and 2 % for seconds. Clients that make no request, such as `disk`, have to be
without one in the log, too."""


def main() -> int:
    """Run the sweeps and print the tables; the exit status says whether everything agrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the sweeps' results go")
    parser.add_argument("--only", nargs="+", choices=sorted({plan.scenario for plan in PLANS}))
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS), help="default: both")
    parser.add_argument("--clients", nargs="+", help="by name; default: all")
    parser.add_argument("--fast", action="store_true", help="a fast network, and no durations: some ten minutes")
    parser.add_argument("--into", type=Path, help="a page to write as well")
    parser.add_argument("--report", action="store_true", help="run nothing, report the newest of each client")
    arguments = parser.parse_args()
    sections, failed, jobs = [], 0, 0
    for plan in PLANS:
        if arguments.only is not None and plan.scenario not in arguments.only:
            continue
        for target in arguments.targets:
            rows = measured(plan, target, arguments)
            if rows:
                table = [f"| client | {' | '.join(TOLERANCES)} |", f"| :-- |{' --: |' * len(TOLERANCES)}"]
                table += [text for text, _ in rows]
                sections += [f"## {plan.title}, target={target}", "\n".join(table)]
                print("\n\n".join(["", *sections[-2:]]), flush=True)
                jobs, failed = jobs + len(rows), failed + sum(not agrees for _, agrees in rows)
    outcome = f"{jobs} jobs, of which {failed} failed or disagree."
    print(f"\n{outcome}")
    if arguments.into is not None:
        command = f"python utils/measure_truth.py multirun/truth --into {arguments.into}"
        sections = [outcome, *sections]
        write_page(arguments.into, title="What results state, and the testbed's log", text=TEXT, command=command,
                   sections=sections)  # fmt: skip
    return 1 if failed or not jobs else 0


def measured(plan: Plan, target: str, arguments: argparse.Namespace) -> list[tuple[str, bool]]:
    """Measure a scenario's clients at a target, and return a line for each, and whether it agrees."""
    directory = arguments.directory.absolute() / f"{plan.title.replace(' ', '-')}-{target}"
    if arguments.report:
        runs = sorted(directory.glob(f"*/{LOG_FILE}"), key=lambda file: file.stat().st_mtime_ns)
        sweeps = [Sweep(plan=plan, target=target, clients=[], directory=file.parent) for file in runs]
        for sweep in sweeps:
            sweep.read()
    else:
        clients = clients_of(plan, TARGETS[target])
        if arguments.clients is not None:
            clients = [client for client in clients if client in arguments.clients]
        if not clients:
            return []
        number = len(list(directory.glob("*")))
        sweep = Sweep(plan=plan, target=target, clients=clients, directory=directory / str(number), fast=arguments.fast)
        status = sweep.run()
        if status not in (0, 1):  # 1: a job failed, which is told below
            sys.exit(status)
        sweeps = [sweep]
    lines: dict[str, tuple[str, bool]] = {}
    for sweep in sweeps:
        for file in sweep.directory.glob("*/job_results.json"):
            result = json.loads(file.read_bytes())
            lines[result["client"]] = line(result, file.parent, sweep, durations=not arguments.fast)
    return [lines[client] for client in sorted(lines)]


def line(result: dict[str, Any], directory: Path, sweep: Sweep, *, durations: bool) -> tuple[str, bool]:
    """A line of the table, and whether all of it agrees."""
    if result["status"] != "ok":
        return f"| {result['client']} | failed: {result['reason']} |", False
    operations, _ = read_raw(directory, ended=True)
    found = compared(result, operations, sweep.log, clock_offset_s=sweep.clock_offset_s)
    by_quantity = {one.quantity: one for one in found if durations or one.quantity != "seconds"}
    cells = [shown(by_quantity[name]) if name in by_quantity else "-" for name in TOLERANCES]
    return f"| {result['client']} | {' | '.join(cells)} |", all(one.agrees for one in by_quantity.values())


def shown(one: Comparison) -> str:
    """A cell of it: what is stated, and by how much that differs, where it does."""
    number = f"{one.stated:,.3f}" if one.quantity == "seconds" else f"{one.stated:,.0f}"
    if one.stated == one.logged:
        return f"{number} ="
    sign = "+" if one.stated > one.logged else "-"
    return f"{number} {sign}{one.difference:.3%}{'' if one.agrees else ' **differs**'}"


if __name__ == "__main__":
    sys.exit(main())
