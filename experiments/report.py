"""A run as a Markdown file with plots."""

from pathlib import Path

from experiments.grid import Grid
from experiments.plots import write_plots
from experiments.record import RunFolder
from experiments.summary import (
    Summary,
    agent_grid,
    figures_grid,
    run_grid,
    summarise,
    type_grid,
)


def write_report(folder: RunFolder) -> Path:
    """Writes `report/report.md` and its plots into the run folder, over older ones; returns the file.

    Works for a run that is not finished, and says so.
    """
    summary = summarise(folder)
    where = folder.path / "report"
    where.mkdir(exist_ok=True)
    phase = summary.shown
    plots = write_plots(summary, phase, where) if phase.finished else []
    parts = [
        f"# Run {summary.run_id}" + ("" if summary.complete else " (unfinished)"),
        *(f"> **{note}**" for note in summary.notes),
        *([] if plots else ["No task has finished yet: there is nothing to plot."]),
        run_grid(summary).markdown(),
        figures_grid(summary).markdown(),
        type_grid(summary, phase).markdown(),
        *(f"![{caption}]({path.name})" for caption, path in plots),
        *(agent_grid(summary, each).markdown() for each in summary.phases),
        machine_grid(folder).markdown(),
        _reading(summary),
    ]
    path = where / "report.md"
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    return path


def machine_grid(folder: RunFolder) -> Grid:
    """What the run ran on."""
    rows = []
    for name, value in folder.machine().items():
        if isinstance(value, dict):
            rows += [(f"{name}: {key}", str(each)) for key, each in value.items()]
        elif isinstance(value, list):
            rows.append((name, ", ".join(str(each) for each in value) or "none"))
        else:
            rows.append((name.replace("_", " "), "unknown" if value is None else str(value)))
    return Grid(title="Machine", header=("", ""), rows=tuple(rows))


def _reading(summary: Summary) -> str:
    return _READING + (
        f"- Repeat it with the settings in `settings.json` (seed {summary.seed}); "
        f"`tasks.jsonl` is the whole stream.\n"
    )


_READING = """\
### How to read this

- Accuracy is of the finished tasks; one that ended with an error is wrong. Intervals are Wilson's, 95 %.
- Throughput is answered tasks per minute of active time (DEALS section 3.4); a task that ended with an error is
  not answered. The active time of an interrupted run is the sum of its segments; one without a recorded end goes
  to its last result.
- Latency is from acceptance to report, of answered tasks; after a resume, from the new acceptance.
- Forwards, splits and final answers are of finished tasks. Calls and tokens are counted where and when they were
  spent, also on work that an interruption made void.
"""
