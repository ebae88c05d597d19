"""The best that any router could do that knows success rates by type: a centralised linear programme. Pure."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from actors.routing.scores import Floats


def best_accuracy(rates_AT: Floats, shares_T: Floats, heaviest_share: float) -> float:
    """max sum_ct q_c x_ac p_ac   s.t.  sum_a x_ac = 1,  sum_c q_c x_ac <= h for every agent,  x >= 0.

    `rates_AT` are success rates p, `shares_T` the shares q of the task types (they sum to 1), `heaviest_share`
    the largest share h of all tasks that one agent may take. Raises ValueError where h is less than an even share.
    """
    agents, types = rates_AT.shape
    if heaviest_share * agents < 1 - 1e-9:
        raise ValueError(
            f"{agents} agents with at most {heaviest_share:.3f} of the tasks each cannot take all"
        )
    load_AT = np.broadcast_to(shares_T, (agents, types))
    each_type = np.kron(np.ones(agents), np.eye(types))
    each_agent = np.kron(np.eye(agents), shares_T[np.newaxis, :])
    solved = linprog(
        -(rates_AT * load_AT).ravel(),
        A_ub=each_agent,
        b_ub=np.full(agents, max(heaviest_share, 1 / agents)),
        A_eq=each_type,
        b_eq=np.ones(types),
        method="highs",
    )
    assert solved.success, solved.message
    # The solver is exact to its tolerance only, and no cap can be better than none.
    return min(float(-solved.fun), oracle_accuracy(rates_AT, shares_T))


def bound_curve(rates_AT: Floats, shares_T: Floats, heaviest_shares: Sequence[float]) -> Floats:
    """`best_accuracy` at each heaviest share, same shape as given."""
    return np.array([best_accuracy(rates_AT, shares_T, share) for share in heaviest_shares])


def oracle_accuracy(rates_AT: Floats, shares_T: Floats) -> float:
    """Each type to its best agent, whatever the load: the bound at a heaviest share of 1."""
    return float((rates_AT.max(axis=0) * shares_T).sum())
