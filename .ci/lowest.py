"""Print the lowest versions that pyproject.toml allows for the extras lab and server, as constraints of pip."""

import re
import tomllib
from pathlib import Path

extras = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
for line in (*extras["lab"], *extras["server"]):
    found = re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)", line)
    if found is None:
        raise SystemExit(f"no lower bound: {line}")
    print(f"{found[1]}=={found[2]}")
