"""Other libraries' mechanisms, each claiming epsilon = 1 between rewards 0 and 1, audited in one run.

Each library has an environment of its own under build/peers and is audited as a program: this very file, run there
with the name of a mechanism, reads one reward a line and writes one response a line. What does not install or import is
named as such. A verdict is about these versions, on this machine, through this much sampling: read the layers.
"""

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

FOLDER = Path(__file__).parent.parent / "build" / "peers"
SAMPLES = 100_000
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
    from importlib.util import find_spec  # noqa: PLC0415
    from types import ModuleType  # noqa: PLC0415

    found = find_spec("nprr")
    if found is None or found.submodule_search_locations is None:
        raise ModuleNotFoundError("nprr")
    package = ModuleType("nprr")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["nprr"] = package
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


def environment(library: str) -> Path | str:
    """Return the Python that has a library, or why there is none."""
    if library not in INSTALL:
        return Path(sys.executable)
    python = FOLDER / f"audit-{library}" / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True, capture_output=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *INSTALL[library]]
        subprocess.run(install, check=True, capture_output=True, text=True)
    except (subprocess.SubprocessError, OSError) as error:
        told = str(getattr(error, "stderr", None) or error)
        return f"does not install: {told.strip().splitlines()[-1]}"
    return python


def version(python: Path, library: str) -> str:
    """The version that is installed there."""
    code = f"from importlib.metadata import version; print(version({library!r}))"
    return subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Print the table; called with a library and a mechanism, be that curator."""
    if len(sys.argv) > 1:
        respond(sys.argv[1], sys.argv[2])
        return
    from shlex import join  # noqa: PLC0415 - what follows is for this environment only

    from ldpbandits import LDPBanditsError  # noqa: PLC0415
    from ldpbandits.audit import audit  # noqa: PLC0415
    from ldpbandits.audit.program import program  # noqa: PLC0415

    print(f"{SAMPLES:,} responses to each of 0 and 1, epsilon = 1 claimed, confidence 99.9 %\n")
    print("| library | mechanism | verdict | said no |\n|---|---|---|---|")
    for library, mechanisms in MECHANISMS.items():
        python = environment(library)
        if isinstance(python, str):
            print(f"| {library} | all | {python} | |")
            continue
        for mechanism in mechanisms:
            started = perf_counter()
            command = join([str(python), __file__, library, mechanism])
            try:
                found = audit(program(command), (0, 1), 1.0, samples=SAMPLES)
            except LDPBanditsError as error:
                print(f"| {library} | {mechanism} | cannot be audited: {str(error)[:120]} | |")
                continue
            layers = ", ".join(layer.name.split(": ")[-1] for layer in found.violated)
            row = f"| {library} {version(python, library)} | {mechanism} | {found.sentence} | {layers} |"
            print(row, flush=True)
            print(f"{perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
