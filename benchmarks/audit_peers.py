"""How near the optimum an audit comes, beside other auditors; and other libraries' mechanisms, audited in one run.

The optimum is the Clopper-Pearson bound that the best guess on all responses reaches on average, at the whole level.
Beside it stands what our audit reaches behind a pipe, and what other auditors (auditors.py) reach at as many responses
and the same confidence. They are not on the package index: name a folder that has a checkout, or read why they are
missing. Nothing is built of it: its packages are imported from where they are.

With `--textbook` it prints the bounds that our check of single responses, which gives the bound of a black box, reaches
on mechanisms of the textbook. Responses are seeded, and it takes a minute. With `--functions` libraries are audited in
this process, which starts none: they must be installed beside ours.

Every mechanism claims epsilon = 1 between rewards 0 and 1.

Each library has an environment of its own under build/peers and is audited as a program: this very file, run there
with the name of a mechanism, reads one reward per line and writes one response per line. What does not install or
import is named as such. A verdict is about these versions, on this machine, and this much sampling: read the layers.
"""

import argparse
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import join
from time import perf_counter
from typing import Any

from auditors import AUDITORS, CONFIDENCE, LEVEL, Auditor, bare
from environments import FOLDER, commit, environment, last_line, version

SAMPLES = 100_000
BOUND_SAMPLES = 1_000_000
TEXTBOOK_SEEDS = (1, 2, 3)
WITHIN = 0.99
"""The part of the optimum that a bound must reach."""
PATIENCE = 3600
"""The seconds that another auditor may take for one mechanism."""
Respond = Callable[[float], float]


def numpy_laplace() -> Respond:
    """numpy's Laplace noise, added to the reward."""
    import numpy as np  # noqa: PLC0415

    rng = np.random.default_rng()
    return lambda reward: float(reward + rng.laplace(scale=1.0))


def _diffprivlib(name: str, **options: float) -> Respond:
    from diffprivlib import mechanisms  # noqa: PLC0415

    made = getattr(mechanisms, name)(epsilon=1.0, **options)
    return lambda reward: float(made.randomise(reward))


def diffprivlib_binary() -> Respond:
    """diffprivlib's randomised response."""
    from diffprivlib.mechanisms import Binary  # noqa: PLC0415

    made = Binary(epsilon=1.0, value0="0", value1="1")
    return lambda reward: float(made.randomise("1" if reward else "0"))


def _opendp() -> Any:  # noqa: ANN401 - a module without types
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib", "honest-but-curious")
    return dp


def opendp_laplace() -> Respond:
    """OpenDP's Laplace mechanism on floats."""
    dp = _opendp()
    made = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0)
    return lambda reward: float(made(reward))


def opendp_randomised_response() -> Respond:
    """OpenDP's randomised response, at the largest probability of truth that its own map allows."""
    dp = _opendp()
    truth = 0.7310585786300048  # just below e / (1 + e)
    made = dp.m.make_randomized_response_bool(prob=truth)
    return lambda reward: float(made(bool(reward)))


def _nprr() -> Any:  # noqa: ANN401 - a module without types
    """Import the mechanisms of nprr without the rest, which needs confseq, a package that has to be compiled."""
    bare("nprr")
    from nprr import mechanisms  # noqa: PLC0415

    return mechanisms


def nprr_nprr() -> Respond:
    """nprr's nonparametric randomised response over ten bins, with the r that it gives for epsilon = 1."""
    import numpy as np  # noqa: PLC0415

    made = _nprr()
    r = made.r_from_G_eps(10, 1.0)
    return lambda reward: float(made.nprr(np.array([reward]), r, 10)[0])


def nprr_laplace() -> Respond:
    """nprr's Laplace mechanism."""
    import numpy as np  # noqa: PLC0415

    made = _nprr()
    return lambda reward: float(made.laplace(np.array([reward]), 1.0)[0])


def ours(kind: str) -> Respond:
    """One of our curators, through the same pipe."""
    import ldpbandits  # noqa: PLC0415

    curator: ldpbandits.Curator = getattr(ldpbandits, kind)(1.0)
    return lambda reward: float(curator.respond(reward))


MECHANISMS: dict[str, dict[str, Callable[[], Respond]]] = {
    "ldpbandits": {"CTB": lambda: ours("BernoulliCurator"), "CTL": lambda: ours("LaplaceCurator")},
    "numpy": {"Laplace": numpy_laplace},
    "diffprivlib": {
        "Laplace": lambda: _diffprivlib("Laplace", sensitivity=1.0),
        "LaplaceTruncated": lambda: _diffprivlib("LaplaceTruncated", sensitivity=1.0, lower=0.0, upper=1.0),
        "LaplaceBoundedDomain": lambda: _diffprivlib("LaplaceBoundedDomain", sensitivity=1.0, lower=0.0, upper=1.0),
        "Staircase": lambda: _diffprivlib("Staircase", sensitivity=1.0),
        "Snapping": lambda: _diffprivlib("Snapping", sensitivity=1.0, lower=0.0, upper=1.0),
        "Binary": diffprivlib_binary,
    },
    "opendp": {"Laplace": opendp_laplace, "RandomizedResponseBool": opendp_randomised_response},
    "nprr": {"nprr, ten bins": nprr_nprr, "laplace": nprr_laplace},
}
INSTALL = {
    "diffprivlib": ["diffprivlib", "scikit-learn<1.8"],  # 0.6.6 does not import beside later ones
    "opendp": ["opendp"],
    "nprr": ["--no-deps", "nprr", "numpy<2", "scipy<1.14"],  # without confseq: see _nprr
}


def respond(library: str, mechanism: str) -> None:
    """Be a curator: one reward a line in, one response a line out."""
    warnings.simplefilter("ignore")  # of other libraries, about themselves
    answer = MECHANISMS[library][mechanism]()
    for line in sys.stdin:
        sys.stdout.write(f"{answer(float(line))!r}\n")


def optimum(mechanism: str, samples: int) -> float:
    """Return the bound that the best guess on all responses reaches on average, at the whole level."""
    from math import e  # noqa: PLC0415

    from ldpbandits.audit.guess import epsilon_lower  # noqa: PLC0415

    guesses = 2 * samples if mechanism == "CTB" else round(samples * (1 + 1 / e))
    return float(epsilon_lower(round(guesses * e / (1 + e)), guesses, LEVEL))


def draw(mechanism: str) -> Path:
    """Write down what our curator responds to 0 and to 1: the file that other auditors are given."""
    import numpy as np  # noqa: PLC0415

    answer = MECHANISMS["ldpbandits"][mechanism]()
    file = FOLDER / f"{mechanism}.npy"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, np.array([[answer(reward) for _ in range(BOUND_SAMPLES)] for reward in (0.0, 1.0)]))
    return file


def processor_seconds() -> float:
    """What this process and those that it waited for have used so far; unlike the clock it minds no other work."""
    return sum(os.times()[:4])


def row(name: str, cells: Sequence[float | str], seconds: float | None = None, digits: int = 4) -> None:
    """Print a row of the bounds."""
    told = [cell if isinstance(cell, str) else f"{cell:.{digits}f}" for cell in cells]
    print(f"| {name} | {' | '.join(told)} | {'' if seconds is None else f'{seconds:.0f}'} |", flush=True)


def ask(name: str, auditor: Auditor, folder: Path | None, drawn: dict[str, Path]) -> None:
    """Print the row of another auditor: its bounds, or why there are none."""
    if folder and not (folder / auditor.module).is_dir():
        row(name, [f"the folder that was named has no {auditor.module}", ""])
        return
    wanted = auditor.needs if folder else (auditor.package, *auditor.needs)
    python = environment(f"audit-{name.lower().replace(', ', '-')}", wanted)
    if isinstance(python, str):
        row(name, [python if folder else f"no folder named, and from the package index it {python}", ""])
        return
    path = {"PYTHONPATH": str(folder.resolve())} if folder else {}
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    script = str(Path(__file__).with_name("auditors.py"))
    reached: list[float | str] = []
    started = processor_seconds()
    for mechanism, file in drawn.items():
        command = [str(python), script, name, mechanism, str(file)]
        surroundings = {**os.environ, **quiet, **path}
        try:
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=PATIENCE, env=surroundings
            )
            reached.append(float(done.stdout.split()[-1]))
        except subprocess.SubprocessError as error:
            reached.append(f"does not run: {last_line(error)}")
    of = commit(folder) if folder else version(python, auditor.package)
    row(f"{name} ({of})", reached, processor_seconds() - started, digits=3)


def bounds(folders: dict[str, Path | None]) -> bool:
    """Print our bounds on CTB and CTL behind a pipe beside the others; return whether ours are near the optimum."""
    from ldpbandits.audit import audit  # noqa: PLC0415
    from ldpbandits.audit.program import PROGRAM_AUDIT_S, program  # noqa: PLC0415

    print(f"{BOUND_SAMPLES:,} responses to each of 0 and 1, epsilon = 1 claimed, confidence {100 * CONFIDENCE:g} %\n")
    print("| auditor | CTB | CTL | seconds |\n|---|---|---|---|")
    best = {mechanism: optimum(mechanism, BOUND_SAMPLES) for mechanism in MECHANISMS["ldpbandits"]}
    row("optimum", list(best.values()))
    reached = {}
    started = processor_seconds()
    for mechanism in best:
        command = join([sys.executable, __file__, "respond", "ldpbandits", mechanism])
        found = audit(program(command), (0, 1), 1.0, samples=BOUND_SAMPLES, confidence=CONFIDENCE, time=PROGRAM_AUDIT_S)
        reached[mechanism] = found.epsilon_lower
        if found.samples < BOUND_SAMPLES:
            print(
                f"{mechanism}: {found.samples:,} responses to each in {PROGRAM_AUDIT_S:g} s, which is unequal",
                file=sys.stderr,
            )
    row("ldpbandits", list(reached.values()), processor_seconds() - started)
    drawn = {mechanism: draw(mechanism) for mechanism in best}
    for name, auditor in AUDITORS.items():
        ask(name, auditor, folders[auditor.package], drawn)
    print(
        "\nseconds: of a processor, for both; ours draws the responses in them, the others are given theirs\n",
        flush=True,
    )
    return all(reached[mechanism] >= WITHIN * best[mechanism] for mechanism in best)


def textbook() -> None:
    """Print the bounds of single responses on mechanisms that keep epsilon = 1 exactly, and on Laplace on doubles."""
    from math import e  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    from ldpbandits.audit.blackbox.single import judge_single  # noqa: PLC0415
    from ldpbandits.audit.checks import BOUND_SHARE  # noqa: PLC0415
    from ldpbandits.audit.sample import sample_of  # noqa: PLC0415

    def k_ary(rng: np.random.Generator, coins: "np.ndarray[Any, Any]", k: int) -> list[bytes]:
        keep = rng.random(len(coins)) < (e - 1) / (e - 1 + k)
        return [b"%d" % each for each in np.where(keep, coins, rng.integers(k, size=len(coins))).tolist()]

    def unary(rng: np.random.Generator, coins: "np.ndarray[Any, Any]") -> list[bytes]:
        bits = rng.random((len(coins), 8)) < 1 / (e + 1)
        bits[np.arange(len(coins)), coins] = rng.random(len(coins)) < 0.5  # noqa: PLR2004 - a fair bit
        return [bytes(48 + bit for bit in row) for row in bits.astype(int).tolist()]

    drawn: dict[str, Callable[[np.random.Generator, np.ndarray[Any, Any]], list[bytes]]] = {
        "randomised response": lambda rng, coins: k_ary(rng, coins, 2),
        "8-ary randomised response": lambda rng, coins: k_ary(rng, coins, 8),
        "optimised unary encoding of 8": unary,
        "Laplace on doubles": lambda rng, coins: [
            repr(y).encode() for y in (coins + rng.laplace(size=len(coins))).tolist()
        ],
    }
    print(f"{SAMPLES:,} responses to each of 0 and 1, confidence {100 * CONFIDENCE:g} %, seeds {TEXTBOOK_SEEDS}\n")
    print("| mechanism | bounds | on average |\n|---|---|---|")
    for name, draw_texts in drawn.items():
        bounds_reached = []
        for seed in TEXTBOOK_SEEDS:
            rng = np.random.default_rng(seed)
            coins = rng.integers(2, size=2 * SAMPLES)
            sample = sample_of((0.0, 1.0), coins, draw_texts(rng, coins), rng)
            found = judge_single(sample, [(0, 1)], BOUND_SHARE * LEVEL, 1.0, is_thorough=True)
            bounds_reached.append(found.epsilon_lower)
        shown = ", ".join(f"{bound:.4f}" for bound in bounds_reached)
        print(f"| {name} | {shown} | {sum(bounds_reached) / len(bounds_reached):.3f} |", flush=True)


def verdicts(only: Sequence[str], *, as_functions: bool = False) -> None:
    """Print what the audit says of other libraries' mechanisms, or of those that are named."""
    from ldpbandits import LDPBanditsError  # noqa: PLC0415
    from ldpbandits.audit import audit  # noqa: PLC0415
    from ldpbandits.audit.program import PROGRAM_AUDIT_S, program  # noqa: PLC0415
    from ldpbandits.audit.target import FOREVER_S, target_of  # noqa: PLC0415

    print(f"{SAMPLES:,} responses to each of 0 and 1, epsilon = 1 claimed, confidence {100 * CONFIDENCE:g} %\n")
    print("| library | mechanism | verdict | failed checks |\n|---|---|---|---|")
    for library, mechanisms in MECHANISMS.items():
        if only and library not in only:
            continue
        is_installed = as_functions or library not in INSTALL
        python = Path(sys.executable) if is_installed else environment(f"audit-{library}", INSTALL[library])
        if isinstance(python, str):
            print(f"| {library} | all | {python} | |")
            continue
        for mechanism in mechanisms:
            started = perf_counter()
            command = join([str(python), __file__, "respond", library, mechanism])
            make = mechanisms[mechanism]
            target = target_of(make(), another_user=make) if as_functions else program(command)
            try:
                most = FOREVER_S if as_functions else PROGRAM_AUDIT_S
                found = audit(target, (0, 1), 1.0, samples=SAMPLES, confidence=CONFIDENCE, time=most)
            except LDPBanditsError as error:
                print(f"| {library} | {mechanism} | cannot be audited: {str(error)[:120]} | |")
                continue
            layers = ", ".join(layer.name.split(": ")[-1] for layer in found.violated)
            print(f"| {library} {version(python, library)} | {mechanism} | {found.sentence} | {layers} |", flush=True)
            print(f"{perf_counter() - started:.0f} s", file=sys.stderr)


def main() -> None:
    """Print both tables; called with `respond`, a library and a mechanism, be that curator."""
    if sys.argv[1:2] == ["respond"]:
        respond(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    packages = sorted({auditor.package for auditor in AUDITORS.values()})
    for package in packages:
        parser.add_argument(f"--{package}", type=Path, help="folder of a checkout, the one with its setup.py")
    parser.add_argument("--bounds", action="store_true", help="print the first table only")
    parser.add_argument("--only", action="append", default=[], metavar="LIBRARY", help="print its verdicts only")
    parser.add_argument("--functions", action="store_true", help="audit what this Python can import, as functions")
    parser.add_argument("--textbook", action="store_true", help="print the bounds on textbook mechanisms only")
    asked = parser.parse_args()
    if asked.textbook:
        textbook()
        return
    if asked.only or asked.functions:
        verdicts(asked.only, as_functions=asked.functions)
        return
    is_near = bounds({package: getattr(asked, package.replace("-", "_")) for package in packages})
    if not asked.bounds:
        verdicts([])
    if not is_near:
        raise SystemExit(f"missed: a bound is below {WITHIN:g} of the optimum")


if __name__ == "__main__":
    main()
