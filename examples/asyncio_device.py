"""A kiosk with three screens in one asyncio program: each shows arms to visitors, and none waits for another.

Run it with a server that has an experiment called headline (see docs/tutorial.md), made with `--sticky 0`, since this
device has many visitors, and with its client key:

    LDPBANDITS_URL=http://127.0.0.1:8000 LDPBANDITS_CLIENT_KEY=client-... python examples/asyncio_device.py
"""

import asyncio
import os
import random

from ldpbandits import AsyncClient, LimitError, Limits, Range

# What the owner of this kiosk allows: a response of at most epsilon 2 by a visitor, and ten such visitors in 30 days.
LIMITS = Limits(rewards=Range(0, 1), epsilon=2, budget=20, window=30 * 24 * 3600)


async def screen(client: AsyncClient, number: int) -> None:
    """Show arms to visitors, until the owner's budget is spent or no answers are asked for any more."""
    while True:
        try:
            pull = await client.decide()  # charged before it is shown
        except LimitError:
            print(f"screen {number}: the budget is spent")
            return
        print(f"screen {number}: {pull.name}")
        if pull.ticket is None:  # the experiment has shipped this arm: a real kiosk goes on showing it
            return
        await asyncio.sleep(random.uniform(0.01, 0.05))  # somebody looks, and touches the screen or does not
        if random.choice((True, False)):
            await pull.observe(1)  # the reward stays here: a random bit is drawn and kept


async def main() -> None:
    """Let three screens share one client, and so one connection, one ledger and one budget."""
    url, key = os.environ["LDPBANDITS_URL"], os.environ["LDPBANDITS_CLIENT_KEY"]
    async with AsyncClient(url, "headline", key=key, limits=LIMITS, ledger=os.environ.get("LEDGER")) as client:
        await asyncio.gather(*(screen(client, number) for number in (1, 2, 3)))
        print(f"spent {await client.spent():g}, left {await client.remaining():g}")
        told = await client.leave()  # else the end of the block does it, without a word
    print(f"{told.acknowledged} responses have arrived")


if __name__ == "__main__":
    asyncio.run(main())
