"""When views go out."""

from actors.agent.teller import Teller


def test_a_change_is_told_at_once_and_then_at_most_once_an_interval() -> None:
    teller = Teller(0.05)
    assert teller.wait_s("a", 1.0) == 0.0
    assert teller.wait_s("a", 2.0) is None, "nothing new"
    assert teller.wait_s("b", 2.0) == 0.0
    wait_s = teller.wait_s("c", 2.02)
    assert wait_s is not None
    assert abs(wait_s - 0.03) < 1e-9
    assert teller.waits(2.03)
    assert not teller.waits(2.06)
    teller.woken()
    assert not teller.waits(2.03)
    assert teller.wait_s("c", 2.06) == 0.0


def test_what_is_forgotten_is_told_again() -> None:
    teller = Teller(0.0)
    teller.wait_s("a", 1.0)
    teller.forget()
    assert teller.wait_s("a", 1.0) == 0.0
