"""A whole run under virtual time, into a run folder like any other."""

from rich.console import Console

from actors.cluster.simulation import START_WALL_S
from experiments.pools import plan_of
from experiments.record import Phase, Result, RunFolder
from experiments.trial import simulate


def run_simulated(folder: RunFolder, console: Console) -> None:
    """Runs the folder's stream and writes everything at the end: interrupted, it begins anew. Raises
    SettingsError for a model that only works in real time."""
    settings, stream = folder.settings(), folder.tasks()
    recording = settings.simulation.model_copy(update={"record": True})
    settings = settings.model_copy(update={"simulation": recording})
    plan = plan_of(settings, [task.row for task in stream], {})
    console.print(f"run {folder.run_id}: {len(stream)} tasks under virtual time", highlight=False)
    results: list[Result] = []
    began_s: dict[Phase, float] = {}
    simulation = simulate(plan, stream, settings, results.append, began_s.__setitem__)
    folder.add_events(simulation.drain())
    for phase, start_s in began_s.items():
        of_phase = [result for result in results if result.phase == phase]
        folder.mark(phase, "begin", START_WALL_S + start_s)
        folder.add_results(of_phase)
        folder.mark(phase, "end", max(result.finished.finished_wall_s for result in of_phase))
    if settings.record_logs:
        folder.add_logs(simulation.snapshots())
    folder.close()
