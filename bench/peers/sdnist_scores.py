"""NIST's own SDNist on one synthetic table: the k-marginal score, Pearson differences and propensity, as its reports
have them. Runs in .venv-peers-sdnist; ``python sdnist_scores.py DATA SYNTHETIC.csv`` prints one JSON object.

DATA is a folder as SDNist expects it: ``national/national2019.csv`` and ``.json``, and what is beside them.
"""

import json
import sys
import tempfile
from pathlib import Path


def main(data, synthetic):
    import sdnist.report  # noqa: F401  (first: its modules import each other)
    from sdnist.load import TestDatasetName
    from sdnist.metrics.kmarginal import KMarginal
    from sdnist.metrics.pearson_correlation import PearsonCorrelationDifference
    from sdnist.metrics.propensity import PropensityMSE
    from sdnist.report.dataset import Dataset
    from sdnist.utils import SimpleLogger

    log = SimpleLogger()
    log.msg = log.end_msg = lambda *_, **__: None
    found = Dataset(Path(synthetic), log, TestDatasetName.national2019, Path(data), False)
    marginals = KMarginal(found.d_target_data, found.d_synthetic_data, [])
    marginals.compute_score()
    names = found.config["correlation_features"]
    pearson = PearsonCorrelationDifference(found.t_target_data, found.t_synthetic_data, names)
    pearson.compute()
    apart = pearson.pp_corr_diff.abs().values
    pairs = [apart[i, j] for i in range(len(names)) for j in range(i)]
    with tempfile.TemporaryDirectory() as folder:
        propensity = PropensityMSE(found.t_target_data, found.t_synthetic_data, Path(folder))
        propensity.compute_score()
    print(
        json.dumps(
            {
                "score": float(marginals.score),
                "marginals": len(marginals.marginals),
                "pearson_mean": float(sum(pairs) / len(pairs)),
                "pearson_max": float(max(pairs)),
                "propensity": float(propensity.pmse_score),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
