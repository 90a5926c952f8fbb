"""What a response costs a PostgreSQL database: processor time, log and disk, by the size of a batch; and what follows.

Batches are counted one after the other by the store itself, without HTTP, into a database with fsync on. The model at
the end is a straight line through the two largest batches; docs/scale.md has what it means for a deployment.
"""

import sys
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
import psycopg
from crowd import spent
from tests.server.postgres_server import running_postgres

from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.store import Answer, Definition
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.types import Arm

ARMS = 10
SIZES = {1: 2_000, 10: 2_000, 100: 600, 1000: 100}
"""Batches of each size, and how many of them."""


def main() -> None:
    """Measure and print."""
    print(f"{'batch':>6}{'responses/s':>13}{'CPU us: store':>15}{'database':>10}{'log, bytes':>12}")
    costs: dict[int, float] = {}
    with running_postgres(fsync="on", shared_buffers="'128MB'") as made:
        database, ourselves = psutil.Process(made.pid), psutil.Process()
        url = made.new()
        with closing(PostgresStore(url)) as store, psycopg.connect(url, autocommit=True) as look:
            definition = Definition("one", "{}", "{}", "{}", 3600, 0.0, 0)
            number = store.create(definition, [f"arm {arm}" for arm in range(ARMS)]).number
            expires_at = int(time.time()) + 3600
            counted = 0
            for size, batches in SIZES.items():
                prepared = [
                    [Answer(Ticket(number, Arm(n % ARMS), expires_at, new_nonce()), 1) for n in range(size)]
                    for _ in range(batches)
                ]
                store.count(prepared.pop())
                log, cpu, own = _log(look), spent(database), sum(ourselves.cpu_times()[:2])
                start = time.perf_counter()
                for batch in prepared:
                    store.count(batch)
                took, responses = time.perf_counter() - start, size * len(prepared)
                counted += size * batches
                costs[size] = 1e6 * (spent(database) - cpu) / responses
                client = 1e6 * (sum(ourselves.cpu_times()[:2]) - own) / responses
                written = (_log(look) - log) / responses
                row = f"{size:>6,}{responses / took:>13,.0f}{client:>15.1f}{costs[size]:>10.1f}{written:>12,.0f}"
                print(row)
            sizes = {}
            for table in ("nonces", "responses"):
                sql = (
                    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
                    " WHERE oid = %(of)s::regclass OR oid IN (SELECT relid FROM pg_partition_tree(%(of)s))"
                )
                sizes[table] = float(str(look.execute(sql, {"of": table}).fetchall()[0][0])) / counted
    each = costs[1000]
    alone = (costs[10] - each) * 10
    print(f"database CPU, us a response: about {each:.1f} + {alone:.0f} / batch")
    print(f"disk, bytes: {sizes['nonces']:.0f} a nonce, {sizes['responses']:.0f} a response")
    for rate in (1e3, 1e5, 1e6):
        nonces = rate * 3600 * sizes["nonces"] / 1e9
        print(
            f"at {rate:>9,.0f}/s: {rate * each / 1e6:.2f} database cores for batches of 1,000, "
            f"log {rate * written / 1e6:,.1f} MB/s, {nonces:,.1f} GB of nonces for tickets of an hour, "
            f"{rate * 86_400 * sizes['responses'] / 1e9:,.0f} GB of responses a day"
        )


def _log(connection: psycopg.Connection[tuple[object, ...]]) -> float:
    """Return how many bytes have been written to the log so far."""
    return float(str(connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchall()[0][0]))


if __name__ == "__main__":
    main()
