"""Tables for those who have pandas. Nothing else needs it."""

from collections.abc import Mapping
from typing import Any

from ldpbandits.errors import MissingExtra


def frame(columns: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of pandas, which need not be there
    """Return columns as a pandas DataFrame."""
    try:
        import pandas as pd  # noqa: PLC0415 - needed here only, and by those only who have it
    except ModuleNotFoundError:
        raise MissingExtra("to_frame needs pandas: pip install pandas") from None
    return pd.DataFrame(columns)
