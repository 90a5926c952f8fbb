"""The paper's numerical section: its three bandits, its nine panels, and the report on them."""

from ldpbandits.lab.paper.panels import BANDITS, BERNOULLI, GAUSSIAN, HORIZON, MIXED, PANELS, Panel

__all__ = ["BANDITS", "BERNOULLI", "GAUSSIAN", "HORIZON", "MIXED", "PANELS", "Panel"]
