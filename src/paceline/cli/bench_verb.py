"""`paceline bench`: the input-pipeline benchmark. Reads arguments, calls `paceline.bench`, and prints."""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.verb_io import add_subcommand, check_positive, check_writable, say, write_output

if TYPE_CHECKING:
    from paceline.bench.bench_job import BenchJob
    from paceline.bench.workload_choice import WorkloadChoice

_FAILED = 1
_VERIFY = "read existing files, and write damaged ones again"


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "bench",
        help="measure whether storage keeps N accelerators busy, with DLIO workloads",
        description="The input-pipeline benchmark: real ranks and files, emulated accelerators, watched by the guard. "
        "The exit code is 90 if a finding ended the run.",
    )
    subcommands = parser.add_subparsers(title="subcommands", dest="subcommand", required=True, metavar="SUBCOMMAND")
    add_subcommand(subcommands, "list", _list, "list the workloads that are shipped")
    show = _add_workload(add_subcommand(subcommands, "show", _show, "show a workload's settings and its plan"))
    show.add_argument("-n", type=int, default=1, metavar="N", dest="ranks", help="number of ranks (default: 1)")
    show.add_argument("--brief", action="store_true", help="show only the plan")
    generate = _add_workload(add_subcommand(subcommands, "generate", _generate, "generate the files of a workload"))
    generate.add_argument("-n", type=int, metavar="N", dest="ranks", help="number of processes (default: 1)")
    generate.add_argument("--verify", action="store_true", help=_VERIFY)
    run = _add_guard(
        _add_workload(
            add_subcommand(subcommands, "run", _run, "run a workload: here, or as a rank of mpiexec, srun or torchrun")
        )
    )
    run.add_argument("-n", type=int, metavar="N", dest="ranks", help="number of ranks (default: 1)")
    run.add_argument("--repeat", type=int, default=1, metavar="K", help="number of runs, one by one (default: 1)")
    _add_worker(_add_workload(add_subcommand(subcommands, "worker", _work, "be one rank under your own launcher")))
    compare = add_subcommand(subcommands, "compare", _compare, "compare runs: ratios and their spread")
    compare.add_argument("first", metavar="A", help="folder of a run, or one that holds several")
    compare.add_argument("second", metavar="B", help="the folder to compare it with")
    compare.add_argument("--page", metavar="FILE", type=Path, help="also write a page for the browser")
    fit = _add_guard(_add_workload(add_subcommand(subcommands, "fit", _fit, "find how many accelerators stay busy")))
    fit.add_argument("--most", type=int, default=64, metavar="N", help="the most ranks to try (default: 64)")


def _add_workload(parser: Any) -> Any:
    parser.add_argument("workload", metavar="WORKLOAD", help="a YAML file, or a name from `paceline bench list`")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings to override")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="S",
        help="shrink the workload to this share of its bytes, e.g. 0.001",
    )
    return parser


def _add_guard(parser: Any) -> Any:
    parser.add_argument(
        "--carrier", choices=("mpi", "torch"), help="default: mpi if mpi4py is installed, otherwise torch"
    )
    parser.add_argument("--out", metavar="DIR", dest="folder", help="where figures go (default: paceline-bench/...)")
    parser.add_argument("--json", metavar="FILE", dest="json_file", help="write the guard's diagnosis to FILE as JSON")
    parser.add_argument("--live", action="store_true", help="show ranks, rates and who waits while the job runs")
    parser.add_argument("--timeout", type=float, metavar="S", help="end the job when a rank has waited for S seconds")
    parser.add_argument(
        "--notice", type=float, default=10.0, metavar="S",
        help="show the ranks being waited for after S seconds (default: 10)",
    )  # fmt: skip
    return parser


def _add_worker(parser: Any) -> None:
    parser.add_argument("--out", metavar="DIR", dest="folder", help="where figures go; all ranks must see this folder")
    parser.add_argument("--carrier", choices=("mpi", "torch"), help="default: detected from the launcher")
    parser.add_argument("--generate", action="store_true", help="generate this rank's share of the files, and exit")
    parser.add_argument("--verify", action="store_true", help=f"with --generate: {_VERIFY}")
    parser.add_argument("--share", metavar="R/W", help=argparse.SUPPRESS)  # for the processes of `generate`
    parser.add_argument("--report-files", action="store_true", help=argparse.SUPPRESS)  # likewise


def _choice(options: argparse.Namespace) -> WorkloadChoice:
    from paceline.bench.workload_choice import choose_workload

    return choose_workload(options.workload, options.overrides, scale=options.scale)


def _job(options: argparse.Namespace, choice: WorkloadChoice, carrier: str) -> BenchJob:
    """Return the job that the options ask for; it shows each run as `paceline run` does."""
    from paceline.bench.bench_job import BenchJob
    from paceline.cli.shown_run import live_output, shown_run
    from paceline.guard.run.watch_options import WatchOptions

    check_writable(options.json_file)
    return BenchJob(
        choice=choice,
        carrier=carrier,
        options=WatchOptions(
            json_file=Path(options.json_file) if options.json_file else None,
            notice_seconds=check_positive("--notice", options.notice),
            timeout_seconds=None if options.timeout is None else check_positive("--timeout", options.timeout),
        ),
        watch=lambda command, watching: shown_run(command, watching, live=live_output(options.live)),
    )


def _list(options: argparse.Namespace) -> int:
    from paceline.bench.workload.workload import load_workload, shipped_names
    from paceline.report.text.bench_text import workloads_as_text

    print(workloads_as_text([(name, load_workload(name).workload) for name in shipped_names()]))
    print("\n--scale 0.001 makes any of them small: paceline bench show NAME --scale 0.001 -n 4")
    return 0


def _show(options: argparse.Namespace) -> int:
    import yaml

    from paceline.bench.workload.split_plans import plan_summaries
    from paceline.bench.workload.workload import as_mapping
    from paceline.report.text.bench_text import ignored_as_text, plans_as_text

    choice = _choice(options)
    plans = plan_summaries(choice.workload, options.ranks)
    if not options.brief:
        print(yaml.safe_dump(as_mapping(choice.workload), sort_keys=False))
    print(plans_as_text(choice.workload, plans, options.ranks))
    if choice.ignored_keys:
        print(ignored_as_text(choice.ignored_keys))
    return 0


def _generate(options: argparse.Namespace) -> int:
    if _is_launched(options):
        from paceline.bench.data.generating_processes import generate_share

        return generate_share(_choice(options).workload, None, verify=options.verify, reports=False)
    return _generate_files(_choice(options), _ranks(options), verify=options.verify)


def _generate_files(choice: WorkloadChoice, num_processes: int, *, verify: bool) -> int:
    from paceline.bench.data.generating_processes import run_generators
    from paceline.bench.data.manifest import check_manifest
    from paceline.bench.data.store import store_of
    from paceline.errors import whole_number
    from paceline.report.text.bench_text import generated_as_text

    store = store_of(choice.workload)
    whole_number("-n", num_processes, least=1)
    code = run_generators(choice, num_processes, verify=verify)
    if code == 0:
        print(generated_as_text(store.url, check_manifest(choice.workload, store)))
    return code


def _is_launched(options: argparse.Namespace) -> bool:
    """Tell whether this process is one of several ranks that the user's own launcher has started."""
    from paceline.comm.place import find_place
    from paceline.errors import InputError

    place = find_place()
    if place.world_size == 1:
        return False
    if options.ranks is not None:
        raise InputError(f"{place.source} has started {place.world_size} ranks of this: leave out -n")
    return True


def _ranks(options: argparse.Namespace) -> int:
    return 1 if options.ranks is None else options.ranks


def _run_launched(options: argparse.Namespace) -> int:
    from paceline.bench.launched_run import run_launched
    from paceline.bench.prepared_run import FinishedRun
    from paceline.errors import InputError
    from paceline.report.text.bench_text import summary_as_text

    of_the_guard = {"--json": options.json_file, "--live": options.live, "--timeout": options.timeout}
    given = [name for name, value in of_the_guard.items() if value]
    if given:
        raise InputError(
            f"{given[0]} belongs to the guard here: paceline run {given[0]} ... -- LAUNCHER paceline bench run"
        )
    if options.repeat != 1:
        raise InputError("--repeat starts ranks again, which your launcher does here: run it several times")
    ended = run_launched(_choice(options), options.folder, carrier=options.carrier)
    if not isinstance(ended, FinishedRun):
        return ended
    print(f"{summary_as_text(ended.summary)}\nwritten: {ended.folder / 'summary.json'}", flush=True)
    return ended.exit_code


def _run(options: argparse.Namespace) -> int:
    if _is_launched(options):
        return _run_launched(options)
    began = time.time() - time.process_time()  # Python has started and imported since; a script may have run before us
    from paceline.bench.rank_carrier import default_carrier, searching_for_mpiexec
    from paceline.errors import whole_number

    carrier = options.carrier or default_carrier()
    with searching_for_mpiexec(carrier):  # our own imports take about as long
        from paceline.bench.bench_job import draw_seed, run_repeatedly
        from paceline.bench.results.result_folder import choose_folder
        from paceline.bench.workload.split_plans import check_phases
        from paceline.report.text.bench_text import ignored_as_text, summary_as_text

        choice = _choice(options)
        job = _job(options, draw_seed(choice), carrier)
    ranks = whole_number("-n", _ranks(options), least=1)
    whole_number("--repeat", options.repeat, least=1)
    if choice.ignored_keys:
        say(ignored_as_text(choice.ignored_keys))
    flow = choice.workload.workflow
    if flow.generate_data:
        code = _generate_files(choice, ranks, verify=False)
        if code or not flow.has_phases:
            return code
    check_phases(choice.workload)
    folder, code = choose_folder(choice.workload, options.folder), 0
    for run in run_repeatedly(job, ranks, folder, times=options.repeat, began=began):
        print(f"{summary_as_text(run.summary)}\nwritten: {run.folder / 'summary.json'}")
        print(f"as a page, with a timeline: paceline report {run.folder / 'records'}", flush=True)
        code = run.exit_code or code
    if options.repeat > 1:
        print(f"written: {folder}; paceline bench compare {folder} OTHER")
    return code


def _work(options: argparse.Namespace) -> int:
    from paceline.bench.workload_choice import told_overrides

    options.overrides = [*told_overrides(), *options.overrides]
    workload = _choice(options).workload
    if options.generate:
        from paceline.bench.data.generating_processes import generate_share

        return generate_share(workload, options.share, verify=options.verify, reports=options.report_files)
    # importing makes 260,000 objects that stay: the collector would look through them again and again
    gc.disable()
    try:
        from paceline.bench.training.rank_entry import run_worker
        from paceline.errors import InputError

        gc.freeze()
    finally:
        gc.enable()

    folder = options.folder or workload.output.folder
    if not folder:
        raise InputError("--out is missing: name a folder for the figures that all ranks see")
    return run_worker(workload, Path(folder), carrier=options.carrier)


def _compare(options: argparse.Namespace) -> int:
    from paceline.bench.results.compare import compare_runs
    from paceline.bench.results.result_folder import runs_in
    from paceline.report.text.bench_text import comparison_as_text

    check_writable(options.page)
    names = (options.first, options.second)
    comparisons, differences = compare_runs(runs_in(options.first), runs_in(options.second))
    print(comparison_as_text(comparisons, differences, names))
    if options.page is not None:
        from paceline.report.page.comparison_page import page_of_comparison
        from paceline.report.page.render import render_page

        if not write_output(options.page, render_page(page_of_comparison(comparisons, differences, names))):
            return _FAILED
        print(f"written: {options.page} (open it in a browser)")
    return 0


def _fit(options: argparse.Namespace) -> int:
    from paceline.bench.bench_job import fit_ranks
    from paceline.bench.rank_carrier import default_carrier
    from paceline.bench.results.result_folder import choose_folder
    from paceline.errors import whole_number
    from paceline.report.text.bench_text import fit_as_text

    most = whole_number("--most", options.most, least=1)
    choice = _choice(options)
    job = _job(options, choice, options.carrier or default_carrier())
    folder = choose_folder(choice.workload, options.folder)
    result = fit_ranks(
        job, folder, most=most, on_trial=lambda trial: say(f"{trial.ranks} ranks: {trial.utilisation:.1f} %")
    )
    print(f"{fit_as_text(result)}\nwritten: {folder}")
    return 0
