"""A forecast is of the right size, and says when there is none."""

import random
from statistics import median

import pytest

from ldpbandits.agent.inference.estimates import share
from ldpbandits.agent.inference.forecast import MAX_FORECAST_RESPONSES, Prospect, more_responses
from ldpbandits.agent.tally import ArmTally, LevelTally
from ldpbandits.spec.menu import Menu

CTB = Menu.from_json({"mechanism": "bernoulli", "epsilon": 2})
CTL = Menu.from_json({"mechanism": "laplace", "epsilon": 2})
MENU = Menu.from_json({"mechanism": "bernoulli", "epsilon": [1, 2]})


class Crowd:
    """Users who are shown one arm, half of all; some answers never come."""

    def __init__(self, number: int, mean: float, missing_share: float, rng: random.Random) -> None:
        """Start with no pulls."""
        self.number, self.missing_share, self.rng = number, missing_share, rng
        self.chance = CTB.first.response_mean(mean)
        self.pulls = self.ones = self.missing = 0

    def pull(self, times: int) -> None:
        """Be shown the arm so often."""
        for _ in range(times):
            if self.rng.random() < self.missing_share:
                self.missing += 1
            else:
                self.pulls += 1
                self.ones += self.rng.random() < self.chance

    @property
    def arm(self) -> Prospect:
        """What a forecast sees of the arm."""
        return Prospect(ArmTally(self.pulls, self.ones), share(0.05, self.number), self.pulls, self.missing, 0, 0.5)


def ranked(crowds: list[Crowd]) -> tuple[Prospect, Prospect]:
    """Return the leader and the other one."""
    best, other = sorted(crowds, key=lambda crowd: crowd.ones / crowd.pulls, reverse=True)
    return best.arm, other.arm


def is_separated(crowds: list[Crowd]) -> bool:
    """Tell whether the leader's interval lies above the other's."""
    best, other = ranked(crowds)
    return best.worst(CTB, 0).low > other.worst(CTB, 0).high


@pytest.mark.parametrize("missing_share", [0.0, 0.03])
def test_a_forecast_is_of_the_right_size(missing_share: float) -> None:
    """After 600 pulls at fixed traffic, in the median of 11 runs, it is within a factor 2 of what it then takes."""
    rng, ratios = random.Random(3), []
    for _ in range(11):
        crowds = [Crowd(0, 0.5, missing_share, rng), Crowd(1, 0.65, missing_share, rng)]
        for crowd in crowds:
            crowd.pull(300)
        (best, other), begin = ranked(crowds), sum(crowd.pulls for crowd in crowds)
        said = more_responses(best, [other], CTB)
        while not is_separated(crowds):
            for crowd in crowds:
                crowd.pull(50 + crowd.pulls // 10)
        took = sum(crowd.pulls for crowd in crowds) - begin
        ratios.append(MAX_FORECAST_RESPONSES if said is None else (said + 100) / (took + 100))
    assert 1 / 2 < median(ratios) < 2


def arm(menu: Menu, mean: float, *, missing: int = 0, out: int = 0, part: float = 0.5) -> Prospect:
    """An arm with 1,000 responses to values of this mean."""
    pulls = 1000 // len(menu)
    cells = [LevelTally(pulls, round(pulls * curator.mechanism.response_mean(mean))) for curator in menu.curators]
    tally = ArmTally(1000, sum(cell.total for cell in cells), cells=cells if len(menu) > 1 else [])
    return Prospect(tally, 0.01, 1000, missing, out, part)


def needed(best: Prospect, other: Prospect, menu: Menu) -> int:
    """Return a forecast that there is."""
    found = more_responses(best, [other], menu)
    assert found is not None
    return found


@pytest.mark.parametrize("menu", [CTB, CTL, MENU])
def test_it_takes_longer_for_a_small_gap_and_for_little_traffic(menu: Menu) -> None:
    """0 when the intervals are disjoint now; more for a smaller gap, for missing answers, for a small share."""
    assert more_responses(arm(menu, 0.8), [arm(menu, 0.2)], menu) == 0
    near, far = (needed(arm(menu, mean), arm(menu, 0.4), menu) for mean in (0.46, 0.49))
    assert 1.5 * far < near < 4 * far
    assert far < needed(arm(menu, 0.49, missing=5), arm(menu, 0.4), menu)
    assert 3 * far < needed(arm(menu, 0.49, part=0.99), arm(menu, 0.4, part=0.01), menu)


def test_the_hardest_of_the_others_counts() -> None:
    """The order in which they are given does not matter."""
    others = [arm(CTB, mean, part=0.25) for mean in (0.3, 0.44, 0.4)]
    best = arm(CTB, 0.5, part=0.25)
    each = [needed(best, other, CTB) for other in others]
    for order in (others, others[::-1]):
        found = more_responses(best, order, CTB)
        assert found is not None
        assert max(each) <= found <= 1.03 * max(each)


@pytest.mark.parametrize("menu", [CTB, CTL, MENU])
def test_what_never_happens_is_not_foretold(menu: Menu) -> None:
    """Equal means; missing answers that alone could change the order, however many others come; an arm without any."""
    assert more_responses(arm(menu, 0.5), [arm(menu, 0.5)], menu) is None
    assert more_responses(arm(menu, 0.5, missing=100), [arm(menu, 0.42, missing=100)], menu) is None
    assert more_responses(arm(menu, 0.5, part=1.0), [arm(menu, 0.46, part=0.0)], menu) is None


@pytest.mark.parametrize("menu", [CTB, CTL, MENU])
def test_an_estimate_beyond_the_range_does_not_go_on_for_ever(menu: Menu) -> None:
    """Noise may put a mean above 1, but further responses are those of some mean: a forecast does not fail at that."""
    pulls = 100 // len(menu)
    cells = [LevelTally(pulls, round(pulls * curator.mechanism.response_mean(1)) + 2) for curator in menu.curators]
    tally = ArmTally(100, sum(cell.total for cell in cells), cells=cells if len(menu) > 1 else [])
    best = Prospect(tally, 0.01, 100, 0, 0, 0.5)
    assert best.worst(menu, 10**8).fits
    assert 0 < needed(best, arm(menu, 0.9), menu) < MAX_FORECAST_RESPONSES


def test_pulls_that_are_out_weigh_less_and_less() -> None:
    """As many are out later as now: they delay the separation, and do not prevent it."""
    found = needed(arm(CTB, 0.5, out=500), arm(CTB, 0.42, out=500), CTB)
    assert 2 * needed(arm(CTB, 0.5), arm(CTB, 0.42), CTB) < found < MAX_FORECAST_RESPONSES
