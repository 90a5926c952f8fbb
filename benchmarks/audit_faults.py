"""Planted faults and their healthy twins, as programs: how many of them an audit finds, misses and accuses.

    python benchmarks/audit_faults.py               all programs, in this process, and a matrix of faults by checks
    python benchmarks/audit_faults.py --command     all of them behind a pipe, as a user would
    python benchmarks/audit_faults.py --few         with 50,000 responses to each reward
    python benchmarks/audit_faults.py WORD ...      those whose name has one of the words
    python benchmarks/audit_faults.py --level       how many of 200 audits of healthy programs accuse, at 90 and 50 %

A program is the body of a curator: Python that defines `respond(r)` and may use the words of PREAMBLE. All claim
epsilon = 1 between 0 and 1, and are audited with the default of 200,000 responses to each reward, at 99.9 %. The
matrix tells how many faults each check found, and which ones it found alone. The level is that of audits with 1,000
responses to each reward and 60 short runs, which have all checks of others.
"""

import itertools
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import Any

from ldpbandits import LDPBanditsError
from ldpbandits.audit import Audit, audit
from ldpbandits.audit.blackbox import runs
from ldpbandits.audit.checks import CHECKS
from ldpbandits.audit.program import PROGRAM_AUDIT_S, program

LEVEL_AUDITS, LEVEL_SAMPLES, LEVEL_USERS, LEVEL_COLOURED = 200, 1_000, 60, 32
LEVEL_CONFIDENCES = (0.9, 0.5)
FEW_SAMPLES = 50_000
PREAMBLE = """
import math, os, random, sys, time, json, itertools, hashlib
rng = random.SystemRandom()
E = math.e
GRID = 2.0 ** -20
def geometric(scale):
    return int(math.log(1 - rng.random()) / (-GRID / scale))
def lap(scale=1.0):
    return (geometric(scale) - geometric(scale)) * GRID
def rr(r, epsilon=1.0):
    bit = rng.random() < r
    return int(bit if rng.random() < 1 / (1 + math.exp(-epsilon)) else not bit)
def bare(r):
    return int(r > rng.random())
def snap(r):
    return round(r / GRID) * GRID
calls = itertools.count()
state = {}
def check(r):
    if not 0 <= r <= 1:
        raise SystemExit("a reward must lie in [0, 1]")
"""
MAIN = """
for line in sys.stdin:
    print(respond(float(line)))
"""

FAULTS = {
    # periods
    "every fourth response is bare": "def respond(r): check(r); return rr(r) if next(calls) % 4 else bare(r)",
    "every tenth of Laplace is bare": "def respond(r): check(r); return snap(r) + (lap() if next(calls) % 10 else 0)",
    "every 97th bit is bare": "def respond(r): check(r); return rr(r) if next(calls) % 97 else bare(r)",
    "noise is drawn in pairs": (
        "def respond(r):\n check(r)\n if next(calls) % 2 == 0: state['n'] = lap()\n return snap(r) + state['n']"
    ),
    "bits are flipped in pairs": (
        "def respond(r):\n check(r)\n if next(calls) % 2 == 0: state['f'] = rng.random() > E / (1 + E)\n"
        " return int((rng.random() < r) != state['f'])"
    ),
    "no noise after a thousand calls of each 8192": (
        "def respond(r): check(r); return rr(r, 1.0 if next(calls) % 8192 < 7900 else 6.0)"
    ),
    # rare leaks
    "bare once in 10,000": "def respond(r): check(r); return r if rng.random() < 1e-4 else snap(r) + lap()",
    "a word once in 10,000": (
        "def respond(r): check(r); return ('high' if r else 'low') if rng.random() < 1e-4 else rr(r)"
    ),
    "a code once in 10,000": "def respond(r): check(r); return 900 + r if rng.random() < 1e-4 else snap(r) + lap()",
    "Laplace truncated at 8": (
        "def respond(r):\n check(r)\n while True:\n  n = lap()\n  if abs(n) <= 8: return snap(r) + n"
    ),
    "Laplace truncated at 8 above only": (
        "def respond(r):\n check(r)\n while True:\n  n = lap()\n  if n <= 8: return snap(r) + n"
    ),
    "Gaussian noise that claims delta = 0": (
        "def respond(r): check(r); return round((r + rng.gauss(0, 1.3)) / GRID) * GRID"
    ),
    # rewards between
    "one half is bare": "def respond(r): check(r); return 0.5 if r == 0.5 else rr(r)",
    "one third is rounded to no grid": ("def respond(r): check(r); return r + lap() if r not in (0, 1) else r + lap()"),
    "noise scaled with the reward's distance from the ends": (
        "def respond(r): check(r); return snap(r) + lap(max(0.02, abs(2 * r - 1)))"
    ),
    "only ends are private": "def respond(r): check(r); return rr(r) if r in (0, 1) else round(r, 2)",
    # runs
    "the first call is bare": "def respond(r): check(r); return rr(r) if next(calls) else bare(r)",
    "a seed of 8 bits": (
        "g = random.Random(rng.getrandbits(8))\n"
        "def respond(r): check(r); return int((g.random() < r) != (g.random() > E / (1 + E)))"
    ),
    "a seed of 14 bits, Laplace": (
        "g = random.Random(rng.getrandbits(14))\n"
        "def respond(r): check(r); return snap(r) + round(math.log(1 - g.random()) / GRID) * GRID"
        " - round(math.log(1 - g.random()) / GRID) * GRID"
    ),
    "a seed left in": (
        "g = random.Random(7)\ndef respond(r): check(r); return int((g.random() < r) != (g.random() > E / (1 + E)))"
    ),
    # text
    "a space at the end": "def respond(r): check(r); return f'{rr(r)} ' if r > 0.5 else f'{rr(r)}'",
    "1 or 1.0": "def respond(r): check(r); return rr(r) if r > 0.5 else float(rr(r))",
    "the last digit is even": (
        "def respond(r):\n check(r)\n y = f'{snap(r) + lap():.6f}'\n"
        " return y[:-1] + rng.choice('02468' if r > .5 else '13579')"
    ),
    "remainder by 7": (
        "def respond(r):\n check(r)\n k = rng.getrandbits(40) // 7 * 7\n return k + (3 if r > .5 else rng.randrange(7))"
    ),
    "bits beyond a double": (
        "def respond(r): check(r); return (rr(r) << 80) + (rng.getrandbits(12) << 61) + (1 if r > .5 else 0)"
    ),
    "a field of JSON": (
        "def respond(r): check(r); return json.dumps({'v': rr(r), 'id': rng.getrandbits(30), "
        "'k': 3 + 4 * rng.getrandbits(20) + 2 * (r > .5)})"
    ),
    "a long unary code, twice the epsilon": (
        "def respond(r):\n check(r)\n at = round(r * 99)\n"
        " return ''.join(str(int((i == at) != (rng.random() > 0.88))) for i in range(100))"
    ),
    "the parity of the ones": (
        "def respond(r):\n check(r)\n b = [rng.getrandbits(1) for _ in range(20)]\n"
        " b[7] ^= (sum(b) % 2) ^ (r > .5)\n return ''.join(map(str, b))"
    ),
    "standard error by reward": (
        "def respond(r): check(r); print('cache', 'hit' if r > .5 else 'miss', file=sys.stderr); return rr(r)"
    ),
    # neighbours
    "the reward of three calls before": (
        "last = [0.0] * 3\n"
        "def respond(r):\n check(r); last.append(r); y = rr(r)\n return y + 10 * int(rng.random() < last.pop(0))"
    ),
    "the reward of forty calls before": (
        "last = [0.0] * 40\n"
        "def respond(r):\n check(r); last.append(r)\n return rr(r) + 10 * int(rng.random() < last.pop(0))"
    ),
    "antithetic noise": (
        "def respond(r):\n check(r)\n n = -state['n'] if next(calls) % 2 else lap()\n"
        " state['n'] = n\n return snap(r) + n"
    ),
    "noise of period 1,000": (
        "noise = [lap() for _ in range(1000)]\ndef respond(r): check(r); return snap(r) + noise[next(calls) % 1000]"
    ),
    "flips of period 317": (
        "flips = [rng.random() > E / (1 + E) for _ in range(317)]\n"
        "def respond(r): check(r); return int((rng.random() < r) != flips[next(calls) % 317])"
    ),
    "drawn twice and averaged": "def respond(r): check(r); return (rr(r) + rr(r)) / 2",
    "kept by reward": (
        "def respond(r):\n check(r)\n if r not in state or rng.random() < .3: state[r] = rr(r)\n return state[r]"
    ),
    "the last noise comes back once in five": (
        "def respond(r):\n check(r)\n if not state or rng.random() > .2: state['n'] = lap()\n"
        " return snap(r) + state['n']"
    ),
    # refusals
    "a refusal with the reward in hexadecimal": (
        "def respond(r):\n if not 0 <= r <= 1: raise SystemExit('out of range ' + r.hex())\n return rr(r)"
    ),
    "a refusal with a random worker and a hash of the reward": (
        "def respond(r):\n if not 0 <= r <= 1: raise SystemExit(f'worker {rng.randrange(9)} refused "
        "{hashlib.sha256(str(r).encode()).hexdigest()[:8]}')\n return rr(r)"
    ),
    # the ratio itself
    "epsilon 1.1": "def respond(r): check(r); return rr(r, 1.1)",
    "Laplace on doubles": (
        "def respond(r): check(r); return r + math.log(1 - rng.random()) - math.log(1 - rng.random())"
    ),
}
HEALTHY = {
    "bits": "def respond(r): check(r); return rr(r)",
    "bits with a counter": "def respond(r): check(r); return f'{next(calls)},{rr(r)}'",
    "bits with a date": "def respond(r): check(r); return json.dumps({'t': time.time(), 'v': rr(r)})",
    "Laplace on a grid": "def respond(r): check(r); return snap(r) + lap()",
    "Laplace on a coarse grid": "def respond(r): check(r); return round(8 * r) / 8 + round(8 * lap(1.12)) / 8",
    "Laplace with six digits": "def respond(r): check(r); return f'{snap(r) + lap():.6f}'",
    "a random worker in refusals": (
        "def respond(r):\n if not 0 <= r <= 1:\n"
        "  raise SystemExit(f'worker {rng.choice([17, 23, 4711])} refused')\n return rr(r)"
    ),
    "a counter of refusals on standard error": (
        "def respond(r):\n if not 0 <= r <= 1: raise SystemExit(f'refusal at {time.time_ns()}')\n"
        " print('call', next(calls), file=sys.stderr)\n return rr(r)"
    ),
    "responses that remember responses": (
        "def respond(r):\n check(r)\n y = rr(r); out = f'{y} {state.get(1, 0)}'\n"
        " state[1] = y + .5 * state.get(1, 0)\n return out"
    ),
    "a budget that ends in random bits": (
        "def respond(r): check(r); return rr(r) if next(calls) < 150_000 else rng.getrandbits(1)"
    ),
    "a unary code": (
        "def respond(r):\n check(r)\n at = round(r * 19)\n"
        " return ''.join(str(int((i == at) != (rng.random() > 1 / (1 + math.exp(-.5))))) for i in range(20))"
    ),
    "randomised response over 11 values": (
        "def respond(r): check(r); return round(r * 10) / 10 if rng.random() < (E - 1) / (E + 10) "
        "else rng.randrange(11) / 10"
    ),
    "noise shared by all, reward hidden anew": "base = lap(9)\ndef respond(r): check(r); return base + rr(r)",
    "local hashing": (
        "def respond(r):\n check(r)\n s = rng.getrandbits(40)\n"
        " h = hashlib.sha256(f'{s},{r > .5}'.encode()).digest()[0] & 1\n"
        " return f'{s},{rr(h)}'"
    ),
    "nothing at all": "def respond(r): check(r); return 0",
    "random words": "def respond(r): check(r); return '%x' % rng.getrandbits(64)",
    "only 0 and 1": ("def respond(r):\n check(r)\n return rr(r) if r in (0, 1) else 'error: a reward must be 0 or 1'"),
}


def curator(body: str) -> Callable[[float], object]:
    """Make a curator of its body, from scratch."""
    names: dict[str, Any] = {}
    exec(compile(f"{PREAMBLE}\n{body}", "a planted program", "exec"), names)  # noqa: S102 - our own table
    made: Callable[[float], object] = names["respond"]
    return made


def audited(body: str, *, by_command: bool = False, **options: Any) -> Audit | str:  # noqa: ANN401 - those of an audit
    """Audit a curator, as a function or behind a pipe; return why it cannot be audited, if so."""
    try:
        if not by_command:
            return audit(curator(body), epsilon=1.0, another_user=lambda: curator(body), **options)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "curator.py"
            path.write_text(f"{PREAMBLE}\n{body}\n{MAIN}", encoding="utf-8")
            return audit(program(shlex.join([sys.executable, str(path)])), epsilon=1.0, time=PROGRAM_AUDIT_S, **options)
    except LDPBanditsError as error:
        return str(error)


def level() -> None:
    """Print how many audits of healthy programs accuse one; fail where they are too many by chance once in 30,000."""
    runs.USERS, runs.COLOURED = LEVEL_USERS, LEVEL_COLOURED
    alarms, bodies = dict.fromkeys(LEVEL_CONFIDENCES, 0), itertools.cycle(HEALTHY.items())
    for number in range(1, LEVEL_AUDITS + 1):
        name, body = next(bodies)
        for confidence in LEVEL_CONFIDENCES:
            with redirect_stderr(StringIO()):
                found = audited(body, samples=LEVEL_SAMPLES, confidence=confidence, seed=number)
            alarms[confidence] += isinstance(found, Audit) and bool(found.violated)
        told = ", ".join(f"{count} accuse at {100 * confidence:g} %" for confidence, count in alarms.items())
        print(f"{number} audits of healthy programs: {told} (last: {name})", flush=True)
    for confidence, count in alarms.items():
        mean = LEVEL_AUDITS * (1 - confidence)
        if count > mean + 4 * (mean * confidence) ** 0.5:
            raise SystemExit(f"missed: {count} alarms at {100 * confidence:g} %")


def matrix(found_by: dict[str, list[str]]) -> None:
    """Print for each check how many faults it found, and which ones it found alone."""
    print("\n| check | found | alone | which |\n|---|---|---|---|")
    for name in [check.name for check in CHECKS]:
        found = [fault for fault, names in found_by.items() if name in names]
        alone = [fault for fault in found if len(found_by[fault]) == 1]
        if found:
            print(f"| {name.split(': ')[-1]} | {len(found)} | {len(alone)} | {', '.join(alone)} |")


def main() -> None:
    """Print a line for each program, the counts and the matrix."""
    if "--level" in sys.argv:
        return level()
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    counts = {"found": 0, "missed": 0, "accused": 0, "passed": 0, "cannot be audited": 0}
    found_by: dict[str, list[str]] = {}
    for table, names in ((FAULTS, ("found", "missed")), (HEALTHY, ("accused", "passed"))):
        for name, body in table.items():
            if words and not any(word in name for word in words):
                continue
            started = perf_counter()
            few = {"samples": FEW_SAMPLES} if "--few" in sys.argv else {}
            with redirect_stderr(StringIO()):
                found = audited(body, by_command="--command" in sys.argv, **few)
            outcome = "cannot be audited" if isinstance(found, str) else names[not found.violated]
            told = (
                found if isinstance(found, str) else ", ".join(layer.name.split(": ")[-1] for layer in found.violated)
            )
            if isinstance(found, Audit) and table is FAULTS:
                found_by[name] = [layer.name for layer in found.violated]
            counts[outcome] += 1
            print(f"{outcome:8} {perf_counter() - started:5.1f} s  {name}: {told}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return matrix(found_by)


if __name__ == "__main__":
    main()
