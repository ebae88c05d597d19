"""Lives the recorded logs of a run again, and compares every command."""

from rich.table import Table

from actors.agent.replay import replay
from actors.errors import SettingsError
from experiments.record import RunFolder


def replay_logs(folder: RunFolder) -> tuple[Table, bool]:
    """A table of each agent's events and commands, and whether all commands came out as recorded.

    Raises SettingsError for a run that kept no logs.
    """
    settings, snapshots = folder.settings(), folder.logs()
    if not snapshots:
        raise SettingsError(f"run {folder.run_id} kept no logs; run it with --record-logs")
    table = Table("agent", "events", "commands", "as recorded", title=f"Run {folder.run_id}, lived again")
    all_same = True
    for snapshot in snapshots:
        again = replay(snapshot.log, snapshot.identity, settings.pool.settings)
        same = again == [list(entry.commands) for entry in snapshot.log]
        all_same = all_same and same
        name = settings.pool.agents[snapshot.agent].name
        commands = sum(len(answers) for answers in again)
        table.add_row(name, str(len(snapshot.log)), str(commands), "yes" if same else "NO")
    return table, all_same
