"""`python -m experiments run`: its arguments, and what it does with an experiment, a study, or an earlier run."""

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from actors.errors import SettingsError
from experiments.registry import COUNTERFACTUAL, find
from experiments.settings import RunSettings, checked, load_pool, override

if TYPE_CHECKING:
    from experiments.deals.studies.study import StudySettings
    from experiments.record import RunFolder


def add_run(parser: argparse.ArgumentParser) -> None:
    """The arguments of `run`."""
    parser.add_argument("experiment", nargs="?", help="see `list`")
    parser.add_argument("run", nargs="?", metavar="RUN", help="of deals-counterfactual: a run's id or folder")
    parser.add_argument("--resume", metavar="RUN", help="finish an interrupted run with its own settings")
    parser.add_argument(
        "--pool",
        type=Path,
        action="append",
        default=[],
        help="pool file: agents, models, graph, settings; some studies take several, each with a --pool of its own",
    )
    _add_data(parser)
    _add_stream(parser)
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
    _add_studies(parser)
    parser.set_defaults(command=_run)


def _add_data(parser: argparse.ArgumentParser) -> None:
    """Which rows."""
    parser.add_argument("--dataset", help="families (default) | bbh | mmlu_pro | gsm8k | math")
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="folder that holds the data sets (default: $TRADEWINDS_DATA_DIR, then what --download fetched)",
    )
    parser.add_argument("--download", action="store_true", help="fetch the data set from its official place")
    parser.add_argument("--types", nargs="+", metavar="TYPE", help="task types to use (default: all)")


def _add_stream(parser: argparse.ArgumentParser) -> None:
    """How many tasks, and when."""
    parser.add_argument(
        "--warmup",
        type=int,
        metavar="N",
        help="tasks of the warm-up, over all types (default: 54; demo: 100)",
    )
    parser.add_argument(
        "--test", type=int, metavar="N", help="tasks of the test, over all types (default: 54; demo: 90)"
    )
    parser.add_argument("--seed", type=int, help="of rows, order, ingress and arrivals (default: 1)")
    parser.add_argument(
        "--arrivals",
        choices=("all_at_once", "poisson", "trace", "closed"),
        help="when tasks arrive (default: all_at_once)",
    )
    parser.add_argument(
        "--rate",
        type=float,
        metavar="PER_S",
        help="of --arrivals poisson (default: 1); "
        "of a study on real engines: tasks a second with all slots busy",
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="of --arrivals trace: arrival times in seconds"
    )


def _add_studies(parser: argparse.ArgumentParser) -> None:
    """What only studies take."""
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


def _settings(options: argparse.Namespace, weight: float | None) -> RunSettings:
    """Defaults of the experiment, then the pool file, then flags, then --set."""
    experiment = find(options.experiment)
    values: dict[str, Any] = {"experiment": experiment.name, "dataset": {}, "arrivals": {}}
    for key, value in experiment.defaults.items():
        values[key] = dict(value) if isinstance(value, dict) else value
    values["pool"] = load_pool(options.pool[0] if options.pool else experiment.pool)
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
    settings = checked(values, f"run {experiment.name}")
    for flag, kind in (("rate", "poisson"), ("trace", "trace")):
        if getattr(options, flag) is not None and settings.arrivals.kind != kind:
            raise SettingsError(f"--{flag} is of --arrivals {kind}; here it is {settings.arrivals.kind}")
    return settings


def _arms(options: argparse.Namespace) -> list[RunSettings]:
    """The settings of each run that was asked for: one for each V."""
    weights = options.quality_weight or find(options.experiment).weights
    if len(set(weights)) < len(weights):
        raise SettingsError(
            f"--quality-weight names one V twice: {' '.join(f'{each:g}' for each in weights)}"
        )
    return [_settings(options, weight) for weight in weights] if weights else [_settings(options, None)]


def _run(options: argparse.Namespace, console: Console) -> int:
    from experiments.arms import arm_grids
    from experiments.launch import execute, new_run, old_run
    from experiments.report import write_report
    from experiments.summary import summarise, summary_tables

    if (options.resume is None) == (options.experiment is None):
        console.print("give an experiment (see `list`) or --resume RUN, and not both", style="red")
        return 2
    if options.experiment == COUNTERFACTUAL:
        return _counterfactual(options, console)
    if options.run is not None:
        console.print(
            f"only {COUNTERFACTUAL} takes a RUN; to go on with one: --resume {options.run}", style="red"
        )
        return 2
    if (study := _study(options)) is not None:
        return study(console)
    if given := _given(options, STUDY_FLAGS if options.resume is None else ()):
        console.print(f"only studies (see `list`) take {given}", style="red")
        return 2
    if len(options.pool) > 1:
        console.print("a run has one --pool; `compare` sets two runs side by side", style="red")
        return 2
    if options.resume is not None:
        if given := _given(options, vars(options)):
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


def _counterfactual(options: argparse.Namespace, console: Console) -> int:
    from experiments.deals.counterfactual import counterfactual
    from experiments.launch import old_run

    if options.run is None:
        console.print(f"name the run to replay: run {COUNTERFACTUAL} RUN (see `list`)", style="red")
        return 2
    if given := _given(options, set(vars(options)) - {"run", "assignments"}):
        console.print(
            f"{COUNTERFACTUAL} has the settings of its run under --set; leave out {given}", style="red"
        )
        return 2
    for grid in counterfactual(old_run(options.run, options.runs_dir), options.assignments):
        console.print(grid.rich())
    return 0


STUDY_FLAGS = ("backend", "seeds", "jobs", "half")
RUN_FLAGS = ("arrivals", "trace", "record_logs", "quality_weight", "run")
"""What a study decides by its arms and points."""


def _study(options: argparse.Namespace) -> Callable[[Console], int] | None:
    """What runs or resumes a study; None where the command is about a run. Raises SettingsError for flags that it
    would have to ignore."""
    from experiments.deals.studies.catalogue import STUDIES
    from experiments.deals.studies.checks import check_study
    from experiments.deals.studies.command import run_study
    from experiments.deals.studies.study import StudyFolder, is_study

    if options.resume is not None:
        path = Path(options.resume) if Path(options.resume).is_dir() else options.runs_dir / options.resume
        if not is_study(path):
            return None
        if given := _given(options, set(vars(options)) - {"jobs"}):
            raise SettingsError(f"--resume goes on with the study's own settings; leave out {given}")
        folder = StudyFolder(path)
        _check_jobs(options.jobs, folder.settings().backend)
    elif options.experiment in STUDIES:
        if given := _given(options, RUN_FLAGS):
            raise SettingsError(
                f"study {options.experiment} has arms and points of its own; leave out {given}, or change every arm "
                f"with --set"
            )
        settings = _asked(options)
        _check_jobs(options.jobs, settings.backend)
        check_study(STUDIES[settings.study], settings)  # what cannot be run leaves no folder
        folder = StudyFolder.create(options.runs_dir, settings)
    else:
        return None

    def run(console: Console) -> int:
        run_study(folder, options.jobs, console)
        return 0

    return run


def _check_jobs(jobs: int | None, backend: str) -> None:
    if jobs is not None and jobs < 1:
        raise SettingsError(f"--jobs must be at least 1, not {jobs}")
    if jobs not in {None, 1} and backend == "vllm":
        raise SettingsError("cells on real engines run one after the other; leave out --jobs")


def _asked(options: argparse.Namespace) -> "StudySettings":
    from experiments.deals.studies.command import study_settings

    data = {"name": options.dataset, "types": options.types, "download": options.download or None}
    return study_settings(
        options.experiment,
        backend=options.backend,
        pools=options.pool,
        seeds=options.seeds,
        first_seed=options.seed,
        warmup=options.warmup,
        test=options.test,
        dataset={key: value for key, value in data.items() if value is not None},
        data_dir=options.data_dir,
        half=options.half,
        runtime=options.runtime,
        capacity_per_s=options.rate,
        changes=options.assignments,
    )


def _python() -> str:
    """This interpreter as one would type it here."""
    here, python = Path.cwd(), Path(sys.executable)
    return str(python.relative_to(here)) if python.is_relative_to(here) else str(python)


def _given(options: argparse.Namespace, among: Collection[str]) -> str:
    """Those flags that were given and would change what is run."""
    others = {"command", "experiment", "resume", "runs_dir"}
    given = [
        key
        for key, value in vars(options).items()
        if key in among and key not in others and value is not None and value is not False and value != []
    ]
    return ", ".join("--set" if key == "assignments" else f"--{key.replace('_', '-')}" for key in given)
