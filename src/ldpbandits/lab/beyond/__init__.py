"""Beyond the paper: its bandits with rules that reach the limit, tails, thresholds and an epsilon for each user."""

from ldpbandits.lab.beyond.panels import PANELS, Panel

__all__ = ["PANELS", "Panel"]
