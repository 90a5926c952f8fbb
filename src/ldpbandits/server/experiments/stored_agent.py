"""An agent with the totals that a store holds."""

from collections.abc import Sequence
from random import Random

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.bound_rule import BoundRule
from ldpbandits.agent.duels import Choice
from ldpbandits.agent.rules import Rule
from ldpbandits.agent.tally import ArmTally, LevelTally, Tally
from ldpbandits.server.experiments.cells import by_level, split_cell
from ldpbandits.server.store import StoredArm
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm

READING_UNIT = 2.0**-20
"""The unit in which a rule's readings are stored as integers: sums are exact, and our rules lose nothing."""


def agent_with(rule: Rule, menu: Menu, arms: list[ArmTally], random: Random | None = None) -> Agent:
    """Return an agent that continues with these tallies."""
    agent = Agent(rule, len(arms), curator=menu, random=random)
    agent.tally = Tally(arms, agent.bound_rule.levels)
    return agent


def restored_agent(stored: Sequence[StoredArm], rule: Rule, menu: Menu, plays_by: BoundRule) -> Agent:
    """Return the agent with all totals of stored arms, also those by pair of arms."""
    agent = agent_with(rule, menu, [tally_of(arm, menu, plays_by) for arm in stored])
    if agent.duels is not None:
        for number, arm in enumerate(stored):
            for cell in arm.cells:
                level, rival = split_cell(cell.cell, len(menu))
                counted = cell.total * menu.unit if plays_by.reading is None else cell.read * READING_UNIT
                agent.duels.add(Choice(Arm(number), rival), cell.pulls, counted, level)
    return agent


def tally_of(arm: StoredArm, menu: Menu, plays_by: BoundRule) -> ArmTally:
    """Return the agent's tally of a stored arm."""
    cells = by_level(arm.cells, len(menu))
    kept = {cell.cell: LevelTally(cell.pulls, cell.total * menu.unit) for cell in cells}
    levels = 0 if plays_by.levels is None else plays_by.levels.count
    return ArmTally(
        pulls=arm.pulls,
        total=arm.total * menu.unit,
        retired=arm.retired,
        read=None if plays_by.reading is None else arm.read * READING_UNIT,
        cells=[kept.get(level, LevelTally()) for level in range(levels)],
    )
