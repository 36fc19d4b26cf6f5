"""Lists found and counted with exactly the tree's law, in few passes over the rows."""
