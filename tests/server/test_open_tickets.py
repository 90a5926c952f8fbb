"""Tickets that are out, as counts."""

import random
from collections import Counter

from ldpbandits.server.experiments.tickets import STRETCHES_PER_LIFETIME, OpenTickets
from ldpbandits.types import Arm


def test_they_expire_in_any_order() -> None:
    """Against a plain list: tickets of any expiry, answered in any order, are out until then and no longer."""
    rng, made = random.Random(1), OpenTickets(100)
    left: list[tuple[Arm, int]] = []
    now = 100
    for _ in range(20_000):
        now += rng.choice((0, 0, 0, 1, -1))
        ticket = (Arm(rng.randrange(3)), now + rng.randrange(1, 50))
        made.change(*ticket, 1)
        left.append(ticket)
        if rng.random() < 0.6:
            answered = left.pop(rng.randrange(len(left)))
            assert made.change(*answered, -1, if_open=True)
            assert made.change(*answered, 0, if_open=True) == (answered in left)
        if rng.random() < 0.1:
            gone = Counter(arm for arm, expires_at in left if expires_at <= now)
            left = [ticket for ticket in left if ticket[1] > now]
            assert made.expire(now) == gone
            assert made.total == len(left)
            assert made.until == max((expires_at for _, expires_at in left), default=0)


def test_what_is_answered_leaves_nothing_behind() -> None:
    """20,000 seconds with one ticket each, all answered: memory does not grow with them."""
    made = OpenTickets(100)
    for second in range(20_000):
        made.change(Arm(0), second, 1)
        made.change(Arm(0), second, -1)
    assert not made._stretches


def test_a_long_lifetime_has_no_more_stretches_than_a_short_one() -> None:
    """100,000 tickets over 30 days need 3,600 counters an arm, and none counts as out for much too long."""
    lifetime = 30 * 86_400
    made = OpenTickets(lifetime)
    rng = random.Random(2)
    for _ in range(100_000):
        made.change(Arm(0), 1 + rng.randrange(lifetime), 1)
    assert len(made._stretches) <= STRETCHES_PER_LIFETIME + 1
    assert sum(made.expire(lifetime).values()) >= 100_000 * (1 - 2 / STRETCHES_PER_LIFETIME)
    made.expire(lifetime + lifetime // STRETCHES_PER_LIFETIME)
    assert made.total == 0


def test_over_all_workers_the_counts_add_up() -> None:
    """Handed out by one worker and answered at another: here +1, there -1, and what is left unanswered is missing."""
    rng = random.Random(3)
    workers = [OpenTickets(100) for _ in range(3)]
    answered = missing = 0
    for second in range(1000):
        handed_out = rng.choice(workers)
        handed_out.change(Arm(0), second + 100, 1)
        if rng.random() < 0.8:
            answered += 1
            rng.choice(workers).change(Arm(0), second + 100, -1)
        missing += sum(worker.expire(second)[Arm(0)] for worker in workers)
        assert sum(worker.total for worker in workers) == second + 1 - answered - missing
    missing += sum(worker.expire(2000)[Arm(0)] for worker in workers)
    assert (answered + missing, sum(worker.total for worker in workers)) == (1000, 0)
