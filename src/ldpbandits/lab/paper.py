"""The paper's bandits: 20 arms, one of mean 0.9, five each of 0.8, 0.7 and 0.6, four of 0.5."""

from ldpbandits.lab.rewards import Law, parse_arms

BERNOULLI: tuple[Law, ...]
MIXED: tuple[Law, ...]
GAUSSIAN: tuple[Law, ...]


def _arms(*texts: str) -> tuple[Law, ...]:
    return tuple(arm for text in texts for arm in parse_arms(text))


BERNOULLI = _arms("bernoulli(0.9)", "5*bernoulli(0.8)", "5*bernoulli(0.7)", "5*bernoulli(0.6)", "4*bernoulli(0.5)")
MIXED = _arms("bernoulli(0.9)", "5*beta(4,1)", "5*choice(0.4,1)", "5*bernoulli(0.6)", "4*uniform(0,1)")
GAUSSIAN = _arms("gaussian(0.9,1)", "5*gaussian(0.8,1)", "5*gaussian(0.7,1)", "5*gaussian(0.6,1)", "4*gaussian(0.5,1)")
