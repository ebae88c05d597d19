"""All families, and the data set made of them."""

from random import Random

from experiments.datasets.families import logic, quantities, sequences
from experiments.datasets.families.family import Family
from experiments.datasets.rows import DataSet, DataSetError, Row

FAMILIES: tuple[Family, ...] = (
    logic.BOOLEAN_EXPRESSIONS,
    quantities.DATE_ARITHMETIC,
    logic.DYCK_LANGUAGES,
    sequences.LAST_LETTERS,
    logic.LOGICAL_ORDER,
    quantities.MULTISTEP_ARITHMETIC,
    sequences.NAVIGATE,
    quantities.OBJECT_COUNTING,
    logic.PARITY,
    sequences.TRACKING_SHUFFLED_OBJECTS,
    logic.WEB_OF_LIES,
    sequences.WORD_SORTING,
)

_REDRAWS = 100


def load_families(seed: int = 1, rows_per_type: int = 200, difficulty: int = 2) -> DataSet:
    """`rows_per_type` different problems of each family, the same for the same arguments.

    The first rows of a longer set are the rows of a shorter one. Raises DataSetError.
    """
    if rows_per_type < 1:
        raise DataSetError(f"cannot generate {rows_per_type} rows of a family; give 1 or more")
    rows = tuple(row for family in FAMILIES for row in family_rows(family, seed, rows_per_type, difficulty))
    return DataSet(
        name="families",
        label=f"families ({len(FAMILIES)} generated, difficulty {difficulty}, seed {seed})",
        rows=rows,
    )


def family_rows(family: Family, seed: int, count: int, difficulty: int) -> list[Row]:
    """What one family gives to such a set. Raises DataSetError."""
    rng = Random(f"{family.name}/{difficulty}/{seed}")
    rows: dict[str, Row] = {}
    for index in range(count):
        task_id = f"families/{family.name}/{difficulty}-{seed}-{index}"
        for _ in range(_REDRAWS):
            row = family.generate(rng, difficulty, task_id)
            if row.problem not in rows:
                rows[row.problem] = row
                break
        else:
            raise DataSetError(
                f"family {family.name!r} has hardly more than {len(rows)} different problems of difficulty "
                f"{difficulty}; ask for fewer rows or a higher difficulty"
            )
    return list(rows.values())
