"""HeavyHitters: the frequent combinations of very many attributes."""

from nabladp.mechanisms.heavy_hitters.mechanism import HeavyHitters
from nabladp.mechanisms.heavy_hitters.output import HeavyHittersError, HeavyList, NodeList
from nabladp.mechanisms.heavy_hitters.settings import Level, Settings
from nabladp.mechanisms.heavy_hitters.tree import Tree

__all__ = ["HeavyHitters", "HeavyHittersError", "HeavyList", "Level", "NodeList", "Settings", "Tree"]
