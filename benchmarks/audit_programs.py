"""Planted faults and their healthy twins, by cause: what audit_faults.py audits.

A program is the body of a curator: Python that defines `respond(r)` and may use the words of PREAMBLE. All claim
epsilon = 1 between 0 and 1.
"""

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
ALONE, COUNT = False, None  # rewards are sent one at a time; how many rewards this run gets
def check(r):
    if not 0 <= r <= 1:
        raise SystemExit("a reward must lie in [0, 1]")
"""
MAIN = """
for line in sys.stdin:
    print(respond(float(line)))
"""

FAULTS = {
    "a period": {
        "every fourth response is bare": "def respond(r): check(r); return rr(r) if next(calls) % 4 else bare(r)",
        "every tenth of Laplace is bare": (
            "def respond(r): check(r); return snap(r) + (lap() if next(calls) % 10 else 0)"
        ),
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
    },
    "a rare leak": {
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
    },
    "rewards between the ends": {
        "one half is bare": "def respond(r): check(r); return 0.5 if r == 0.5 else rr(r)",
        "one third is rounded to no grid": (
            "def respond(r): check(r); return r + lap() if r not in (0, 1) else r + lap()"
        ),
        "noise scaled with the reward's distance from the ends": (
            "def respond(r): check(r); return snap(r) + lap(max(0.02, abs(2 * r - 1)))"
        ),
        "only ends are private": "def respond(r): check(r); return rr(r) if r in (0, 1) else round(r, 2)",
    },
    "the start of a run": {
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
        "a generator that fork copies": (
            "g = random.Random(rng.getrandbits(128))\n"
            "def respond(r): check(r); return int((g.random() < r) != (g.random() > E / (1 + E)))"
        ),
    },
    "text": {
        "a space at the end": "def respond(r): check(r); return f'{rr(r)} ' if r > 0.5 else f'{rr(r)}'",
        "1 or 1.0": "def respond(r): check(r); return rr(r) if r > 0.5 else float(rr(r))",
        "the last digit is even": (
            "def respond(r):\n check(r)\n y = f'{snap(r) + lap():.6f}'\n"
            " return y[:-1] + rng.choice('02468' if r > .5 else '13579')"
        ),
        "remainder by 7": (
            "def respond(r):\n check(r)\n k = rng.getrandbits(40) // 7 * 7\n"
            " return k + (3 if r > .5 else rng.randrange(7))"
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
    },
    "neighbours": {
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
    },
    "refusals": {
        "a refusal with the reward in hexadecimal": (
            "def respond(r):\n if not 0 <= r <= 1: raise SystemExit('out of range ' + r.hex())\n return rr(r)"
        ),
        "a refusal with a random worker and a hash of the reward": (
            "def respond(r):\n if not 0 <= r <= 1: raise SystemExit(f'worker {rng.randrange(9)} refused "
            "{hashlib.sha256(str(r).encode()).hexdigest()[:8]}')\n return rr(r)"
        ),
        "a refusal whose status tells of the reward": (
            "def respond(r):\n if not 0 <= r <= 1: raise SystemExit(hash(r) % 7 + 1)\n return rr(r)"
        ),
    },
    "the ratio itself": {
        "epsilon 1.1": "def respond(r): check(r); return rr(r, 1.1)",
        "Laplace on doubles, added one by one": (
            "def respond(r): check(r); return r + math.log(1 - rng.random()) - math.log(1 - rng.random())"
        ),
        "Laplace on doubles": (
            "def respond(r): check(r); return r + (math.log(1 - rng.random()) - math.log(1 - rng.random()))"
        ),
    },
    "1. one reward at a time": {
        "a larger epsilon": "def respond(r): check(r); return rr(r, 1.5 if ALONE else 1.0)",
        "the reward before, too": (
            "def respond(r):\n check(r)\n before = state.get(0, 0); state[0] = r if ALONE else 0\n"
            " return f'{rr(r)} {rr(before, 2.0)}'"
        ),
        "a flip for two": (
            "def respond(r):\n check(r)\n"
            " if not ALONE or next(calls) % 2 == 0: state['f'] = rng.random() > E / (1 + E)\n"
            " return int((rng.random() < r) != state['f'])"
        ),
        "no noise for a run of one": "def respond(r): check(r); return bare(r) if COUNT == 1 else rr(r)",
        "less noise for a run of one": "def respond(r): check(r); return snap(r) + lap(0.1 if COUNT == 1 else 1.0)",
        "a word for a run of one": (
            'def respond(r): check(r); return f\'{rr(r)} {"high" if r > .5 else "low"}\'[:99 if COUNT == 1 else 1]'
        ),
    },
    "2. a whole run": {
        "a label encoder": "def respond(r): check(r); return rr(state.setdefault(r, len(state)) % 2)",
        "a range that adapts": (
            "met = [9.0, -9.0]\n"
            "def respond(r):\n check(r)\n met[:] = min(met[0], r), max(met[1], r)\n"
            " return snap((r - met[0]) / (met[1] - met[0] or 2.0) + .75 * (met[1] > met[0])) + lap()"
        ),
        "a warm-up mean": (
            "met = []\n"
            "def respond(r):\n check(r)\n if len(met) < 5: met.append(r)\n return snap(r - sum(met) / len(met)) + lap()"
        ),
        "the run before": (
            "def respond(r):\n check(r)\n if next(calls): return f'{rr(r)} 0'\n"
            " before, os.environ['LEFT'] = os.environ.get('LEFT', '0'), f'{r:g}'\n return f'{rr(r)} {before}'"
        ),
    },
    "3. a visible key": {
        "a flip for two of a session": (
            "def respond(r):\n check(r)\n k = rng.randrange(300)\n f = state.pop(k, None)\n"
            " if f is None: f = state[k] = rng.random() > E / (1 + E)\n return f's{k}:{int((rng.random() < r) != f)}'"
        ),
        "a flip for five of a worker": (
            "def respond(r):\n check(r)\n k = rng.randrange(300)\n"
            " if not state.get(k): state[k] = [rng.random() > E / (1 + E)] * 5\n"
            " return json.dumps({'worker': k, 'v': int((rng.random() < r) != state[k].pop())})"
        ),
        "the reward before of a user": (
            "def respond(r):\n check(r)\n k = rng.randrange(300)\n before, state[k] = state.get(k, 0), r\n"
            " return f'{rr(r)} {rr(before, 3.0)} u{k}'"
        ),
    },
    "4. a late field": {
        f"field {place + 1} of twenty": (
            "def respond(r):\n check(r)\n y = [rng.randrange(10 ** rng.randrange(1, 9)) for _ in range(20)]\n"
            f" y[{place}] = y[{place}] // 2 * 2 + rr(r, 1.5)\n return ' '.join(map(str, y))"
        )
        for place in (6, 11, 17)
    },
    "5. a missing response": {
        "an error for one reward, at times": (
            "def respond(r):\n check(r)\n if rng.random() < .02 * r: raise ValueError\n return rr(r)"
        ),
        "nothing for one reward, at times": (
            "def respond(r): check(r); return rr(r) if rng.random() > .02 * (1 - r) else None"
        ),
        "an error for one reward, always": ("def respond(r):\n check(r)\n if r == 1: raise ValueError\n return rr(r)"),
    },
}
"""Programs that leak more than they claim, by cause; the numbered causes are those of tests/audit/test_causes.py."""
HEALTHY = {
    "any": {
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
        "only 0 and 1": (
            "def respond(r):\n check(r)\n return rr(r) if r in (0, 1) else 'error: a reward must be 0 or 1'"
        ),
    },
    "1. one reward at a time": {
        "more noise": "def respond(r): check(r); return rr(r, 0.5 if ALONE or COUNT == 1 else 1.0)",
        "a counter": "def respond(r): check(r); return f'{next(calls) if ALONE else 0} {rr(r)}'",
        "the number of rewards": "def respond(r): check(r); return f'{rr(r)} of {COUNT}'",
    },
    "2. a whole run": {
        "an encoder of responses": "def respond(r): check(r); return state.setdefault(rr(r), len(state))",
        "a range of responses": (
            "met = [99.0, -99.0]\n"
            "def respond(r):\n check(r)\n y = snap(r) + lap(); met[:] = min(met[0], y), max(met[1], y)\n"
            " return f'{y} {met[0]} {met[1]}'"
        ),
        "the response of the run before": (
            "def respond(r):\n check(r)\n y = rr(r)\n if next(calls): return f'{y} 0'\n"
            " before, os.environ['LEFT'] = os.environ.get('LEFT', '0'), f'{y}'\n return f'{y} {before}'"
        ),
    },
    "3. a visible key": {
        "a session": "def respond(r): check(r); return f's{rng.randrange(300)}:{rr(r)}'",
        "a worker that counts": (
            "def respond(r):\n check(r)\n k = rng.randrange(300); state[k] = state.get(k, 0) + 1\n"
            " return json.dumps({'worker': k, 'n': state[k], 'v': rr(r)})"
        ),
        "a user with a name": (
            "def respond(r): check(r); return f'{rr(r)} {random.Random(rng.randrange(300)).getrandbits(30):x}'"
        ),
    },
    "4. a late field": {
        f"field {place + 1} of twenty": (
            "def respond(r):\n check(r)\n y = [rng.randrange(10 ** rng.randrange(1, 9)) for _ in range(20)]\n"
            f" y[{place}] = y[{place}] // 2 * 2 + rr(r)\n return ' '.join(map(str, y))"
        )
        for place in (6, 11, 17)
    },
    "5. a missing response": {
        "an error at times": "def respond(r):\n check(r)\n if rng.random() < .02: raise ValueError\n return rr(r)",
        "nothing at times": "def respond(r): check(r); return rr(r) if rng.random() > .3 else None",
        "an error hardly more often for one": (
            "def respond(r):\n check(r)\n if rng.random() < .01 + .01 * r: raise ValueError\n return rr(r)"
        ),
    },
}
"""Programs that keep their claim, most of them at its very boundary."""
ONLY_IN_PROCESS = "1. one reward at a time"
"""A program behind a pipe does not know how many rewards it will get."""
