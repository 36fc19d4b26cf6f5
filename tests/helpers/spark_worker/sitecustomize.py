"""For Python on executors: PySpark comes from the environment, not from the archives that Spark puts on the path.

Spark forgets what Python knows of archives before every task, and reading their tables of contents anew takes longer
than the task.
"""

import sys

for path in [path for path in sys.path if path.endswith((".zip", ".jar"))]:
    sys.path.remove(path)
    sys.path_importer_cache.pop(path, None)
