"""The command line: `python -m experiments <command> --help` explains each."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from actors.errors import TradewindsError
from experiments.registry import experiments, find
from experiments.settings import RunSettings, checked, load_pool, override

if TYPE_CHECKING:
    from experiments.record import RunFolder

_EPILOG = """\
examples:
  python -m experiments run demo
  python -m experiments run deals --pool experiments/deals/pools/smollm2-x3.yaml --dataset bbh --data-dir DIR
  python -m experiments run deals --pool experiments/deals/pools/simulated-x3.yaml --runtime local --quality-weight 80
  python -m experiments run --resume RUN        go on where a run was interrupted
  python -m experiments trace RUN TASK          one task's life, with the scores behind each decision
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 the command failed, 2 it was used wrongly, 130 interrupted."""
    options = _parser().parse_args(arguments)
    # Not on a terminal (a log, a job) the tables need a width of their own.
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        status: int = options.command(options, console)
    except TradewindsError as error:
        Console(stderr=True).print(f"error: {error}", style="red", highlight=False, markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    runs = argparse.ArgumentParser(add_help=False)
    runs.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), help="where run folders are (default: runs)"
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    commands.add_parser("list", parents=[runs], help="the experiments and the runs there are").set_defaults(
        command=_list
    )
    _add_run(commands.add_parser("run", parents=[runs], help="run an experiment, or resume one"))
    for name, command, text in (
        ("report", _report, "Markdown and plots of a run, and its tables here"),
        ("trace", _trace, "one task's life, with the scores and view ages behind each decision"),
        ("compare", _compare, "two runs side by side, paired by task"),
        ("replay", _replay, "lives the logs of a run (--record-logs) again and compares every command"),
    ):
        sub = commands.add_parser(name, parents=[runs], help=text, description=text)
        sub.add_argument("run", metavar="A" if name == "compare" else "RUN", help="a run's id or folder")
        if name == "trace":
            which = "a task id, or the beginning of just one; without it some ids are listed"
            sub.add_argument("task", metavar="TASK", nargs="?", default="", help=which)
        if name == "compare":
            sub.add_argument("other", metavar="B", help="the run to compare it with")
        sub.set_defaults(command=command)
    perf = commands.add_parser("perf", help="benchmarks: one JSON line for each figure, and a table")
    perf.add_argument(
        "suite",
        choices=("core", "runtime", "simulation", "calls"),
        help="core: the pure decision core; runtime: local and Ray; simulation: virtual time at full size; "
        "calls: how long a pool's first model takes, alone and side by side",
    )
    perf.add_argument("--pool", type=Path, help="of calls: pool file (default: smollm2-x3)")
    perf.add_argument("--agents", type=int, default=10_000, help="of simulation (default: 10000)")
    perf.add_argument("--tasks", type=int, default=1_000_000, help="of simulation (default: 1000000)")
    perf.set_defaults(command=_perf)
    commands.add_parser("doctor", help="checks this machine and says how to mend it").set_defaults(
        command=_doctor
    )
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", help="see `list`")
    parser.add_argument("--resume", metavar="RUN", help="finish an interrupted run with its own settings")
    parser.add_argument("--pool", type=Path, help="pool file: agents, models, graph, settings")
    parser.add_argument("--dataset", help="families (default) | bbh | mmlu_pro | gsm8k | math")
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="folder that holds the data sets (default: $TRADEWINDS_DATA_DIR, then what --download fetched)",
    )
    parser.add_argument("--download", action="store_true", help="fetch the data set from its official place")
    parser.add_argument("--types", nargs="+", metavar="TYPE", help="task types to use (default: all)")
    parser.add_argument(
        "--warmup", type=int, metavar="N", help="tasks of the warm-up, over all types (default: 54; demo: 36)"
    )
    parser.add_argument(
        "--test", type=int, metavar="N", help="tasks of the test, over all types (default: 54)"
    )
    parser.add_argument("--seed", type=int, help="of rows, order, ingress and arrivals (default: 1)")
    parser.add_argument(
        "--runtime",
        choices=("ray", "local", "simulation"),
        help="ray (default); local: one process; simulation: virtual time",
    )
    parser.add_argument(
        "--quality-weight",
        type=float,
        nargs="+",
        metavar="V",
        help="V of the test phase; 0: backlog only (default: the pool file's). Several: one test each, one after "
        "the other on the same agents after one warm-up",
    )
    parser.add_argument(
        "--arrivals",
        choices=("all_at_once", "poisson", "trace", "closed"),
        help="when tasks arrive (default: all_at_once)",
    )
    parser.add_argument("--rate", type=float, metavar="PER_S", help="of --arrivals poisson (default: 1)")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="of --arrivals trace: arrival times in seconds"
    )
    parser.add_argument(
        "--record-logs", action="store_true", help="keep each agent's (event, now, rng state) log"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="assignments",
        help="any setting by its dotted name, e.g. pool.settings.executor.kind=direct; may be repeated",
    )
    studies = parser.add_argument_group(
        "studies", "a study runs many arms over many seeds; --seed is its first, --resume goes on with one"
    )
    studies.add_argument("--backend", choices=("replay", "simulated", "vllm"), help="default: see `list`")
    studies.add_argument("--seeds", type=int, metavar="N", help="how many seeds (default: the study's)")
    studies.add_argument("--jobs", type=int, metavar="N", help="processes (default: one a core)")
    studies.add_argument(
        "--half",
        choices=("all", "tune", "report"),
        help="which rows: those that settings are chosen on, or test tasks from all others (default: the study's)",
    )
    parser.set_defaults(command=_run)


def _settings(options: argparse.Namespace, weight: float | None) -> RunSettings:
    """Defaults of the experiment, then the pool file, then flags, then --set."""
    experiment = find(options.experiment)
    values: dict[str, Any] = {"experiment": experiment.name, "dataset": {}, "arrivals": {}}
    for key, value in experiment.defaults.items():
        values[key] = dict(value) if isinstance(value, dict) else value
    values["pool"] = load_pool(options.pool or experiment.pool)
    flags: dict[str, Any] = {
        "dataset.name": options.dataset,
        "dataset.data_dir": options.data_dir,
        "dataset.download": options.download or None,
        "dataset.types": options.types,
        "warmup": options.warmup,
        "test": options.test,
        "seed": options.seed,
        "runtime": options.runtime,
        "arrivals.kind": options.arrivals,
        "arrivals.rate_per_s": options.rate,
        "arrivals.trace": options.trace,
        "record_logs": options.record_logs or None,
    }
    for key, value in flags.items():
        if value is not None:
            group, _, name = key.rpartition(".")
            (values[group] if group else values)[name] = value
    for assignment in experiment.changes:
        override(values, assignment)
    if weight is not None:
        override(values, f"pool.settings.mechanism.quality_weight={weight}")
    for assignment in options.assignments:
        override(values, assignment)
    return checked(values, f"run {experiment.name}")


def _arms(options: argparse.Namespace) -> list[RunSettings]:
    """The settings of each run that was asked for: one for each V."""
    weights = options.quality_weight or find(options.experiment).weights
    return [_settings(options, weight) for weight in weights] if weights else [_settings(options, None)]


def _run(options: argparse.Namespace, console: Console) -> int:
    from experiments.arms import arm_grids
    from experiments.launch import execute, new_run, old_run
    from experiments.report import write_report
    from experiments.summary import summarise, summary_tables

    if (options.resume is None) == (options.experiment is None):
        console.print("give an experiment (see `list`) or --resume RUN, and not both", style="red")
        return 2
    if (study := _study(options)) is not None:
        return study(console)
    if options.resume is not None:
        if given := _given(options):
            console.print(f"--resume goes on with the run's own settings; leave out {given}", style="red")
            return 2
        folders = [old_run(options.resume, options.runs_dir)]
    else:
        folders = [new_run(settings, options.runs_dir) for settings in _arms(options)]
    try:
        execute(folders[0], console, *folders[1:])
    except KeyboardInterrupt:
        console.print(f"interrupted; go on with: {_python()} -m experiments run --resume {folders[0].path}")
        raise
    for folder in folders:
        write_report(folder)
    grids = arm_grids(folders) if len(folders) > 1 else []
    for table in [grid.rich() for grid in grids] or summary_tables(summarise(folders[0])):
        console.print(table)
    _show_where(folders, console)
    return 0


def _show_where(folders: Sequence["RunFolder"], console: Console) -> None:
    """Where everything is, and what to type next."""
    for folder in folders:
        report = folder.path / "report" / "report.md"
        console.print(
            f"run folder: {folder.path}\nreport and plots: {report}", highlight=False, soft_wrap=True
        )
    some = f"{folders[-1].path} {folders[-1].tasks()[-1].row.task_id}"
    lines = [f"one task's life: {_python()} -m experiments trace {some}"]
    if len(folders) > 1:
        lines.append(
            f"paired by task: {_python()} -m experiments compare {folders[0].path} {folders[-1].path}"
        )
    console.print("\n".join(lines), highlight=False, soft_wrap=True)


def _study(options: argparse.Namespace) -> Callable[[Console], int] | None:
    """What runs or resumes a study; None where the command is about a run."""
    from experiments.deals.studies.catalogue import STUDIES
    from experiments.deals.studies.command import run_study, study_settings
    from experiments.deals.studies.study import StudyFolder, is_study

    if options.resume is not None:
        path = Path(options.resume) if Path(options.resume).is_dir() else options.runs_dir / options.resume
        folder = StudyFolder(path) if is_study(path) else None
    elif options.experiment in STUDIES:
        settings = study_settings(
            options.experiment,
            backend=options.backend,
            seeds=options.seeds,
            first_seed=options.seed,
            warmup=options.warmup,
            test=options.test,
            data_dir=options.data_dir,
            half=options.half,
            changes=options.assignments,
        )
        folder = StudyFolder.create(options.runs_dir, settings)
    else:
        folder = None
    if folder is None:
        return None

    def run(console: Console) -> int:
        run_study(folder, options.jobs, console)
        return 0

    return run


def _python() -> str:
    """This interpreter as one would type it here."""
    here, python = Path.cwd(), Path(sys.executable)
    return str(python.relative_to(here)) if python.is_relative_to(here) else str(python)


def _given(options: argparse.Namespace) -> str:
    """The flags that were given and would change a run."""
    others = {"command", "experiment", "resume", "runs_dir"}
    given = [
        key
        for key, value in vars(options).items()
        if key not in others and value is not None and value is not False and value != []
    ]
    return ", ".join("--set" if key == "assignments" else f"--{key.replace('_', '-')}" for key in given)


def _list(options: argparse.Namespace, console: Console) -> int:
    from experiments.deals.studies.catalogue import STUDIES

    table = Table("experiment", "what it runs", "pool")
    for experiment in experiments().values():
        table.add_row(experiment.name, experiment.summary, experiment.pool.name)
    console.print(table)
    studies = Table("study", "what it compares", "backends")
    for study in STUDIES.values():
        studies.add_row(study.name, study.summary, ", ".join(study.defaults))
    console.print(studies)
    runs = sorted(path.parent.name for path in options.runs_dir.glob("*/tasks.jsonl"))
    console.print(
        "\n".join(["runs:", *runs]) if runs else f"no runs in {options.runs_dir} yet", highlight=False
    )
    return 0


def _report(options: argparse.Namespace, console: Console) -> int:
    from experiments.deals.studies.catalogue import STUDIES
    from experiments.deals.studies.command import show_study
    from experiments.deals.studies.study import StudyFolder, is_study
    from experiments.launch import old_run
    from experiments.report import write_report
    from experiments.summary import summarise, summary_tables

    path = Path(options.run) if Path(options.run).is_dir() else options.runs_dir / options.run
    if is_study(path):
        show_study(StudyFolder(path), STUDIES[StudyFolder(path).settings().study], console)
        return 0
    folder = old_run(options.run, options.runs_dir)
    path = write_report(folder)
    for table in summary_tables(summarise(folder)):
        console.print(table)
    console.print(f"report: {path}", highlight=False)
    return 0


def _trace(options: argparse.Namespace, console: Console) -> int:
    from experiments.launch import old_run
    from experiments.trace import trace

    console.print(trace(old_run(options.run, options.runs_dir), options.task))
    return 0


def _compare(options: argparse.Namespace, console: Console) -> int:
    from experiments.compare import compare
    from experiments.launch import old_run

    for table in compare(old_run(options.run, options.runs_dir), old_run(options.other, options.runs_dir)):
        console.print(table)
    return 0


def _replay(options: argparse.Namespace, console: Console) -> int:
    from experiments.launch import old_run
    from experiments.replay import replay_logs

    table, all_same = replay_logs(old_run(options.run, options.runs_dir))
    console.print(table)
    return 0 if all_same else 1


def _perf(options: argparse.Namespace, console: Console) -> int:
    match options.suite:
        case "core":
            from experiments.perf import core

            return core.main(console)
        case "runtime":
            from experiments.perf import runtime

            return runtime.main(console)
        case "simulation":
            from experiments.perf import simulation

            return simulation.main(console, agents=options.agents, tasks=options.tasks)
        case _:
            from experiments.perf import calls

            return calls.main(console, options.pool or find("deals").pool)


def _doctor(_: argparse.Namespace, console: Console) -> int:
    from experiments.doctor import diagnose, print_diagnosis

    return print_diagnosis(diagnose(), console)


if __name__ == "__main__":
    sys.exit(main())
