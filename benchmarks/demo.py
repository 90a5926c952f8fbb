"""How soon the agent of `ldpbandits demo` finds the best headline: equal traffic, the paper's rule, and later ones.

Epsilon 1, the demo's five headlines, 16,000 responses one by one, 12 runs, means. `half` is the first response,
of a hundred or more, at which the best headline has had half of all decisions, `named` the last at which another had
the largest mean, `share` its part of all decisions, `regret` the likes that were missed, `apart` the response at which
its interval lies above all others. A rule that wastes little on other headlines learns little of them: it comes later.
"""

import random
from statistics import fmean

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.inference.estimates import estimate_arm, share
from ldpbandits.agent.rules import IMED, UCB, KLUCBPlus, Rule, Thompson, ldp_ucb_b
from ldpbandits.demo import LIKED
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Bernoulli
from ldpbandits.types import Response

MEANS = list(LIKED.values())
BEST = MEANS.index(max(MEANS))
CURATOR = CuratorSpec(Bernoulli(1.0))
RESPONSES, RUNS, STEP = 16_000, 12, 200


def is_apart(agent: Agent) -> bool:
    """Tell whether the best headline's interval lies above all others, as the server's report says it."""
    found = [
        estimate_arm(arm, agent.menu, alpha=share(0.05, number))  # type: ignore[arg-type]
        for number, arm in enumerate(agent.tally.arms)
    ]
    return found[BEST].low > max(known.high for number, known in enumerate(found) if number != BEST)


def run(rule: Rule, seed: int) -> tuple[float, float, float, float, float]:
    """Return half, named, share, regret and apart of one run; what never comes is the end."""
    rng = random.Random(seed)
    agent = Agent(rule, len(MEANS), curator=CURATOR, random=rng)
    chances = [CURATOR.mechanism.response_mean(mean) for mean in MEANS]
    half = apart = RESPONSES
    named = 0
    for t in range(1, RESPONSES + 1):
        arm = agent.select()
        agent.update(arm, Response(float(rng.random() < chances[arm])))
        pulls = agent.tally.arms[BEST].pulls
        if half == RESPONSES and t >= STEP / 2 and pulls > t / 2:
            half = t
        if agent.tally.means[BEST] < max(agent.tally.means):
            named = t
        if t % STEP == 0 and apart == RESPONSES and is_apart(agent):
            apart = t
    regret = sum((max(MEANS) - mean) * arm.pulls for mean, arm in zip(MEANS, agent.tally.arms, strict=True))
    return half, named, agent.tally.arms[BEST].pulls / RESPONSES, regret, apart


def main() -> None:
    """Print a table."""
    print(__doc__)
    print(f"{'':<22}{'half':>8}{'named':>8}{'share':>8}{'regret':>8}{'apart':>8}")
    rules: dict[str, Rule] = {
        "equal traffic": UCB(1e6),
        "the paper's": ldp_ucb_b(),
        "kl-ucb++, the default": KLUCBPlus(),
        "imed": IMED(),
        "thompson": Thompson(),
    }
    for name, rule in rules.items():
        half, named, part, regret, apart = (
            fmean(column) for column in zip(*map(run, [rule] * RUNS, range(RUNS)), strict=True)
        )
        print(f"{name:<22}{half:>8,.0f}{named:>8,.0f}{part:>8.1%}{regret:>8,.0f}{apart:>8,.0f}", flush=True)


if __name__ == "__main__":
    main()
