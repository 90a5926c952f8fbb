"""A Dask cluster as the executor that plays trials."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from ldpbandits.errors import ParameterError
from ldpbandits.extras import needs

CONNECT_TIMEOUT_S = 10


@contextmanager
def workers(cluster: str | None) -> Iterator[Executor | None]:
    """Yield the executor of the Dask cluster at this address; None, for threads here, without one."""
    if cluster is None:
        yield None
        return
    with needs("cluster", who="cluster"):
        from distributed import Client  # noqa: PLC0415 - of the extra `cluster`
    try:
        client = Client(cluster, timeout=CONNECT_TIMEOUT_S)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ParameterError(f"no Dask scheduler answers at {cluster}: {reason}") from None
    with client:
        executor: Executor = client.get_executor(pure=False)
        yield executor
