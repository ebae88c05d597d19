"""The command line: `python -m experiments <command> --help` explains each."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from actors.errors import TradewindsError
from experiments.registry import COUNTERFACTUAL, experiments, find
from experiments.run_command import add_run

if TYPE_CHECKING:
    pass

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
    add_run(commands.add_parser("run", parents=[runs], help="run an experiment, or resume one"))
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


def _list(options: argparse.Namespace, console: Console) -> int:
    from experiments.deals.studies.catalogue import STUDIES
    from experiments.deals.studies.study import is_study

    table = Table("experiment", "what it runs", "pool")
    for experiment in experiments().values():
        table.add_row(experiment.name, experiment.summary, experiment.pool.name)
    console.print(table)
    studies = Table("study", "what it compares", "backends")
    for study in STUDIES.values():
        studies.add_row(study.name, study.summary, ", ".join(study.defaults))
    studies.add_row(COUNTERFACTUAL, "a recorded run lived again under other policies", "of the run")
    console.print(studies)
    runs = sorted(path.parent.name for path in options.runs_dir.glob("*/tasks.jsonl"))
    found = sorted(
        path.parent.name for path in options.runs_dir.glob("*/settings.json") if is_study(path.parent)
    )
    lines = [*(["runs:", *runs] if runs else []), *(["studies:", *found] if found else [])]
    console.print("\n".join(lines) or f"no runs in {options.runs_dir} yet", highlight=False)
    return 0


def _report(options: argparse.Namespace, console: Console) -> int:
    from experiments.deals.studies.catalogue import study_named
    from experiments.deals.studies.command import show_study
    from experiments.deals.studies.study import StudyFolder, is_study
    from experiments.launch import old_run
    from experiments.report import write_report
    from experiments.summary import summarise, summary_tables

    path = Path(options.run) if Path(options.run).is_dir() else options.runs_dir / options.run
    if is_study(path):
        show_study(StudyFolder(path), study_named(StudyFolder(path).settings().study), console)
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
