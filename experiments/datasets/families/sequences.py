"""Families about words, and about a state that changes step by step."""

from random import Random

from experiments.datasets.families.family import NAMES, WORDS, YES_NO, Family, Puzzle, with_options

_COMPASS = ("north", "east", "south", "west")
_STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def _word_sorting(rng: Random, difficulty: int) -> Puzzle:
    words = rng.sample(WORDS, 2 + 2 * difficulty)
    return Puzzle(
        problem=f"Put these words into alphabetical order: {', '.join(words)}",
        answer=" ".join(sorted(words)),
    )


def _last_letters(rng: Random, difficulty: int) -> Puzzle:
    words = rng.sample(WORDS, 2 + difficulty)
    return Puzzle(
        problem=f"Take the last letter of each of these words and join them in order: {', '.join(words)}",
        answer="".join(word[-1] for word in words),
    )


def _navigate(rng: Random, difficulty: int) -> Puzzle:
    moves = [(rng.randrange(4), rng.randint(1, 9)) for _ in range(1 + difficulty)]
    x, y = _position(moves)
    if rng.random() < 0.5:
        moves += _way(-x, -y)
    else:
        # Nearly home: the way back, but one step short or long.
        way = _way(-x, -y) or [(0, 0)]
        side, steps = way[-1]
        way[-1] = (side, steps + 1 if steps < 2 else steps + rng.choice((1, -1)))
        moves += way
    home = _position(moves) == (0, 0)
    walked = ", then ".join(
        f"{steps} {'step' if steps == 1 else 'steps'} {_COMPASS[side]}" for side, steps in moves
    )
    return Puzzle(
        problem=f"{rng.choice(NAMES)} walks {walked}. Does the walk end where it began?",
        answer=YES_NO[not home],
        choices=YES_NO,
    )


def _position(moves: list[tuple[int, int]]) -> tuple[int, int]:
    return (
        sum(_STEPS[side][0] * steps for side, steps in moves),
        sum(_STEPS[side][1] * steps for side, steps in moves),
    )


def _way(x: int, y: int) -> list[tuple[int, int]]:
    """The moves that lead by (x, y)."""
    legs = [(1 if x > 0 else 3, abs(x)), (0 if y > 0 else 2, abs(y))]
    return [leg for leg in legs if leg[1]]


def _tracking_shuffled_objects(rng: Random, difficulty: int) -> Puzzle:
    people = rng.sample(NAMES, min(7, 2 + difficulty))
    things = rng.sample(WORDS, len(people))
    holds = dict(zip(people, things, strict=True))
    start = ", ".join(f"{person} holds the {thing}" for person, thing in holds.items())
    swaps = []
    for _ in range(1 + 2 * difficulty):
        one, two = rng.sample(people, 2)
        holds[one], holds[two] = holds[two], holds[one]
        swaps.append(f"{one} and {two} trade.")
    asked = rng.choice(people)
    question = f"At first {start}. {' '.join(swaps)} What does {asked} hold at the end?"
    wrong = [f"the {thing}" for thing in things if thing != holds[asked]]
    return with_options(rng, question, f"the {holds[asked]}", wrong)


WORD_SORTING = Family(
    name="word_sorting",
    answer_format="the words in order, separated by single spaces",
    draw=_word_sorting,
)
LAST_LETTERS = Family(
    name="last_letters", answer_format="the letters in one piece, for example kwt", draw=_last_letters
)
NAVIGATE = Family(name="navigate", answer_format="Yes or No", draw=_navigate)
TRACKING_SHUFFLED_OBJECTS = Family(
    name="tracking_shuffled_objects",
    answer_format="one option letter in brackets, for example (A)",
    draw=_tracking_shuffled_objects,
)
