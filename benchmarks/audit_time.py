"""Whether `ldpbandits audit --command` keeps its --time, for programs that are fast, wordy, or slow to start or answer.

Each is healthy, claims epsilon = 1, and is asked for 2e6 responses to each reward: more than there is time for. What
is printed: the seconds of the whole command, the verdict, the responses that were judged, what did not finish.

    python benchmarks/audit_time.py [SECONDS ...]      15 and 60 unless told otherwise
"""

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from audit_programs import MAIN, PREAMBLE

TIMES = (15.0, 60.0)
PROGRAMS = {
    "bits": "def respond(r): check(r); return rr(r)",
    "Laplace": "def respond(r): check(r); return snap(r) + lap()",
    "JSON": (
        "def respond(r): check(r); return json.dumps({'n': next(calls), 'id': f'{rng.getrandbits(64):x}', 'v': rr(r)})"
    ),
    "0.1 ms for each response": "def respond(r): check(r); time.sleep(1e-4); return rr(r)",
    "0.3 s to start": "time.sleep(0.3)\ndef respond(r): check(r); return rr(r)",
    "2 s to start": "time.sleep(2)\ndef respond(r): check(r); return rr(r)",
}


def main() -> None:
    """Print a row for each time and program."""
    with tempfile.TemporaryDirectory() as folder:
        for seconds in [float(each) for each in sys.argv[1:]] or TIMES:
            for name, body in PROGRAMS.items():
                file = Path(folder) / "curator.py"
                file.write_text(PREAMBLE + body + MAIN, encoding="utf-8")
                started = perf_counter()
                command = [
                    sys.executable,
                    "-m",
                    "ldpbandits",
                    "audit",
                    "--command",
                    shlex.join([sys.executable, str(file)]),
                ]
                words = [*command, "--epsilon", "1", "--samples", "2e6", "--time", f"{seconds:g}", "--json"]
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                took = perf_counter() - started
                told = done.stderr.strip()
                if done.stdout:
                    found = json.loads(done.stdout)
                    unfinished = f"; {len(found['not_finished'])} not finished" if found["not_finished"] else ""
                    told = (
                        f"{found['seconds']:.1f} s without start-up: {found['verdict']}, {found['samples']:,} responses"
                    )
                    told += f" to each reward{unfinished}"
                print(f"--time {seconds:<3g} {name:26} {took:5.1f} s  exit {done.returncode}  {told}", flush=True)


if __name__ == "__main__":
    main()
