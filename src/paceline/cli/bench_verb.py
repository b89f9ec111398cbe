"""`paceline bench`: the input-pipeline benchmark. Ranks are started as `paceline run` starts them, under the guard."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.parts import add_part
from paceline.process.exit_codes import FINDING_CODE

if TYPE_CHECKING:
    from paceline.bench.workload.workload import Described


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "bench",
        help="does the storage keep so many accelerators busy? workloads as DLIO has them",
        description="The input-pipeline benchmark: real ranks and files, emulated accelerators, watched by the guard. "
        "Exit code 90 if a finding ended the run.",
    )
    parts = parser.add_subparsers(title="parts", dest="part", required=True, metavar="PART")
    add_part(parts, "list", _list, "name the workloads that are shipped")
    showing = _workload(add_part(parts, "show", _show, "say what a workload comes to"))
    showing.add_argument("-n", type=int, default=1, metavar="N", dest="ranks", help="ranks (default: 1)")
    showing.add_argument("--brief", action="store_true", help="only what the plan makes of the samples")
    making = _workload(add_part(parts, "generate", _generate, "make the files of a workload"))
    making.add_argument("-n", type=int, default=1, metavar="N", dest="ranks", help="processes (default: 1)")
    making.add_argument("--verify", action="store_true", help="read what is there, and make anew what is damaged")
    running = _guarded(_workload(add_part(parts, "run", _run, "run a workload on ranks of this machine")))
    running.add_argument("-n", type=int, default=1, metavar="N", dest="ranks", help="ranks (default: 1)")
    running.add_argument("--repeat", type=int, default=1, metavar="K", help="runs, one after the other (default: 1)")
    _worker(_workload(add_part(parts, "worker", _work, "be one rank of a job that your own launcher starts")))
    comparing = add_part(parts, "compare", _compare, "compare runs: ratios, with their spread")
    comparing.add_argument("first", metavar="A", help="folder of a run, or of several")
    comparing.add_argument("second", metavar="B", help="the same")
    fitting = _guarded(_workload(add_part(parts, "fit", _fit, "find how many accelerators are kept busy")))
    fitting.add_argument("--most", type=int, default=64, metavar="N", help="ranks to try at most (default: 64)")


def _workload(parser: Any) -> Any:
    parser.add_argument("workload", metavar="WORKLOAD", help="a YAML file, or a name from `paceline bench list`")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="what is to be otherwise")
    parser.add_argument("--scale", type=float, default=1.0, metavar="S", help="share of its bytes, such as 0.001")
    return parser


def _guarded(parser: Any) -> Any:
    parser.add_argument("--carrier", choices=("mpi", "torch"), help="default: mpi where mpi4py is there")
    parser.add_argument("--out", metavar="DIR", dest="folder", help="where figures go (default: paceline-bench/...)")
    parser.add_argument("--json", metavar="FILE", dest="json_file", help="write the guard's outcome as JSON")
    parser.add_argument("--live", action="store_true", help="show ranks, rates and who waits while it runs")
    parser.add_argument("--timeout", type=float, metavar="S", help="end a run when a rank has waited for S seconds")
    parser.add_argument("--notice", type=float, default=10.0, metavar="S", help="say who is waited for after S seconds")
    return parser


def _worker(parser: Any) -> None:
    parser.add_argument("--out", metavar="DIR", dest="folder", help="where figures go; all ranks must see it")
    parser.add_argument("--carrier", choices=("mpi", "torch"), help="default: seen from the launcher")
    parser.add_argument("--generate", action="store_true", help="make this rank's share of the files, and nothing else")
    parser.add_argument("--verify", action="store_true", help="with --generate: make anew what is damaged")
    parser.add_argument("--share", metavar="R/W", help=argparse.SUPPRESS)  # of our own processes that generate
    parser.add_argument("--tell", action="store_true", help=argparse.SUPPRESS)


def _load(options: argparse.Namespace) -> Described:
    from paceline.bench.workload.workload import load_workload

    return load_workload(options.workload, options.overrides, scale=options.scale)


def _list(options: argparse.Namespace) -> int:
    from paceline.bench.workload.workload import load_workload, shipped_names
    from paceline.report.text.bench_text import workloads_as_text

    print(workloads_as_text([(name, load_workload(name).workload) for name in shipped_names()]))
    print("\n--scale 0.001 makes any of them small: paceline bench show NAME --scale 0.001 -n 4")
    return 0


def _show(options: argparse.Namespace) -> int:
    import yaml

    from paceline.bench.workload.split_plans import about_plans
    from paceline.bench.workload.workload import as_mapping
    from paceline.report.text.bench_text import notes_as_text, plans_as_text

    described = _load(options)
    plans = about_plans(described.workload, options.ranks)
    if not options.brief:
        print(yaml.safe_dump(as_mapping(described.workload), sort_keys=False))
    print(plans_as_text(described.workload, plans, options.ranks))
    if described.notes:
        print(notes_as_text(described.notes))
    return 0


def _generate(options: argparse.Namespace) -> int:
    from paceline.bench.data.generate import check_manifest
    from paceline.bench.data.generating_processes import run_makers
    from paceline.bench.data.store import store_of
    from paceline.errors import whole_number
    from paceline.report.text.bench_text import generated_as_text

    workload = _load(options).workload
    store = store_of(workload)
    whole_number("-n", options.ranks, least=1)
    code = run_makers(_again(options, "worker", "--generate"), workload, options.ranks, verify=options.verify)
    if code == 0:
        print(generated_as_text(store.url, check_manifest(workload, store)))
    return code


def _run(options: argparse.Namespace) -> int:
    from paceline.bench.results.result_folder import new_folder
    from paceline.errors import InputError, whole_number
    from paceline.report.text.bench_text import notes_as_text

    began = time.time()
    with _asking_for_mpi(options.carrier):
        described = _load(options)
        _import_the_rest()
    whole_number("-n", options.ranks, least=1)
    whole_number("--repeat", options.repeat, least=1)
    if described.notes:
        print(notes_as_text(described.notes), file=sys.stderr)
    described = _with_drawn_seed(options, described)
    flow = described.workload.workflow
    if flow.generate_data:
        code = _generate(argparse.Namespace(**vars(options), verify=False))
        if code or not (flow.train or flow.evaluation):
            return code
    if not (flow.train or flow.evaluation):
        raise InputError("there is nothing to run: workflow.train and workflow.evaluation are off")
    folder, code = new_folder(described.workload, options.folder), 0
    for number in range(options.repeat):
        part = folder if options.repeat == 1 else new_folder(described.workload, str(folder / f"{number + 1}"))
        code = _run_once(options, described, options.ranks, part, began) or code
        began = time.time()
    if options.repeat > 1:
        print(f"written: {folder}; paceline bench compare {folder} OTHER")
    return code


def _with_drawn_seed(options: argparse.Namespace, described: Described) -> Described:
    """Draw the seed where the shuffle is to be another in each run; all ranks must have the same."""
    reader = described.workload.reader
    if "random" not in (reader.file_shuffle, reader.sample_shuffle):
        return described
    import random

    options.overrides.append(f"train.seed={random.SystemRandom().getrandbits(31)}")
    return _load(options)


def _run_once(
    options: argparse.Namespace, described: Described, ranks: int, folder: Path, began: float, *, is_quiet: bool = False
) -> int:
    from paceline.bench.data.generate import check_manifest
    from paceline.bench.data.store import store_of
    from paceline.bench.results.result_folder import read_summary, summarise_failed
    from paceline.bench.workload.split_plans import about_plans
    from paceline.cli.run_verb import watch
    from paceline.launch.local_ranks import local_command
    from paceline.report.text.bench_text import summary_as_text

    workload = described.workload
    about_plans(workload, ranks)  # a plan without a step is an error before anything runs
    splits = check_manifest(workload, store_of(workload))
    carrier = options.carrier or _default_carrier()
    worker = _again(options, "worker", "--out", str(folder), "--carrier", carrier)
    os.environ["PACELINE_BENCH_BEGAN"] = f"{began:.3f}"
    guard = argparse.Namespace(**vars(options), out=str(folder / "records"), trace=None, every=None)
    asked = ["paceline", "bench", "run", options.workload, *options.overrides, "-n", str(ranks)]
    code = watch(local_command(ranks, carrier, worker), guard, asked=asked)
    summary = read_summary(folder)
    if summary is None:
        num_bytes = sum(split["num_bytes"] for split in splits.values())
        outcome = "finding" if code == FINDING_CODE else "failed"
        summary = summarise_failed(folder, workload, world_size=ranks, num_bytes=num_bytes, outcome=outcome)
        code = code or 1
    if not is_quiet:
        print(f"{summary_as_text(summary)}\nwritten: {folder / 'summary.json'}")
        print(f"as a page, with a timeline: paceline report {folder / 'records'}")
    return code


@contextmanager
def _asking_for_mpi(carrier: str | None) -> Iterator[None]:
    """Find mpiexec while something else is done: mpi4py is asked in a process of its own, which takes a while."""
    from paceline.launch.mpiexec import MpiError, find_mpiexec

    def ask() -> None:
        with suppress(MpiError):  # it is said when ranks are started
            find_mpiexec()

    if (carrier or _default_carrier()) != "mpi":
        yield
        return
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        asking.join()  # the guard starts ranks by a fork, which must find no thread


def _import_the_rest() -> None:
    """Import what a run needs in any case."""
    import paceline.bench.workload.split_plans
    import paceline.cli.run_verb
    import paceline.guard.run.watched_run
    import paceline.report.text.finding_text  # noqa: F401


def _default_carrier() -> str:
    from importlib.util import find_spec

    return "mpi" if find_spec("mpi4py") is not None else "torch"


def _again(options: argparse.Namespace, part: str, *more: str) -> list[str]:
    """Return the command of a rank of the same workload."""
    own = [sys.executable, "-m", "paceline", "bench", part, options.workload, *options.overrides]
    return [*own, "--scale", repr(options.scale), *more]


def _work(options: argparse.Namespace) -> int:
    described = _load(options)
    if options.generate:
        from paceline.bench.data.generating_processes import make_share

        return make_share(described.workload, options.share, verify=options.verify, tell=options.tell)
    from paceline.bench.training.rank_entry import run_worker
    from paceline.errors import InputError

    folder = options.folder or described.workload.output.folder
    if not folder:
        raise InputError("--out is missing: name a folder for the figures that all ranks see")
    return run_worker(described.workload, Path(folder), carrier=options.carrier)


def _compare(options: argparse.Namespace) -> int:
    from paceline.bench.results.compare import compare
    from paceline.bench.results.result_folder import runs_in
    from paceline.report.text.bench_text import compared_as_text

    found, differences = compare(runs_in(options.first), runs_in(options.second))
    print(compared_as_text(found, differences, (options.first, options.second)))
    return 0


def _fit(options: argparse.Namespace) -> int:
    from paceline.bench.results.fit import Tried, fit
    from paceline.bench.results.result_folder import new_folder, read_summary
    from paceline.errors import PacelineError, whole_number
    from paceline.report.text.bench_text import fit_as_text

    described = _load(options)
    folder = new_folder(described.workload, options.folder)

    def attempt(ranks: int) -> Tried:
        part = new_folder(described.workload, str(folder / f"{ranks}"))
        code = _run_once(options, described, ranks, part, time.time(), is_quiet=True)
        summary = read_summary(part)
        if code or summary is None:
            raise PacelineError(f"the run of {ranks} ranks has failed with code {code}: see {part}")
        metric = summary["metric"]
        tried = Tried(
            ranks=ranks,
            utilisation=metric["train_au_mean_percentage"],
            samples_per_second=metric["train_throughput_mean_samples_per_second"],
        )
        print(f"{ranks} ranks: {tried.utilisation:.1f} %", file=sys.stderr, flush=True)
        return tried

    most = whole_number("--most", options.most, least=1)
    found = fit(attempt, target=100 * described.workload.metric.au, most=most)
    print(f"{fit_as_text(found)}\nwritten: {folder}")
    return 0
