"""All studies by name."""

from collections.abc import Mapping

from actors.errors import SettingsError
from experiments.deals.studies import accuracy, arrivals, router, throughput, topologies
from experiments.deals.studies.study import Study

STUDIES: Mapping[str, Study] = {
    study.name: study
    for study in (
        accuracy.ACCURACY,
        accuracy.VSWEEP,
        accuracy.POOLS,
        topologies.TOPOLOGIES,
        arrivals.ARRIVALS,
        throughput.THROUGHPUT,
        router.ROUTER,
    )
}


def study_named(name: str) -> Study:
    """Raises SettingsError listing the known names."""
    if name not in STUDIES:
        raise SettingsError(f"no study {name!r}; known: {', '.join(STUDIES)}")
    return STUDIES[name]
