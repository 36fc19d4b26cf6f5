"""``python -m nabladp``."""

from nabladp.cli import main

main()
