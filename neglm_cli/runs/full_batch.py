"""Training of vectors without sampling (`embed --full-batch`): L-BFGS on the whole objective, without checkpoints."""

import time

from neglm_cli.errors import count_of
from neglm_cli.objective.exact import Result, maximize
from neglm_cli.runs.host import Host, Report
from neglm_cli.settings.embed import Settings
from neglm_cli.text.pairs import Pairs
from neglm_cli.vectors.vectors import Vectors

MAX_ITERATIONS = 100_000


class FullBatchTraining:
    def __init__(self, pairs: Pairs, settings: Settings, host: Host) -> None:
        self.pairs = pairs
        self.settings = settings
        self._host = host
        self.seconds = 0.0  # without the final write

    def run(self, output: str) -> Result:
        """Maximize the objective and write the vectors."""
        pairs, settings, started = self.pairs, self.settings, time.monotonic()
        with self._host.track("maximizing", None, "iterations") as tracker:
            result = maximize(
                pairs, settings.size, settings.k, settings.noise_alpha, settings.objective, settings.seed,
                max_iterations=MAX_ITERATIONS,
                report=lambda iteration, score: tracker.advance(0, f"iteration {iteration}, S {score:.8f}"),
            )  # fmt: skip
        self.seconds = time.monotonic() - started
        iterations = result.iterations
        if not result.converged:
            self._host.note(
                f"not converged after {count_of(iterations, 'iteration')}; the vectors are close to optimal"
            )
        Vectors(
            pairs.words, result.vectors.astype("float32"), pairs.contexts, result.context_vectors.astype("float32"),
            settings.objective, settings.k, settings.noise_alpha, settings.stored() | {"pairs": True}, pairs.files,
            {"done": iterations, "total": iterations},
        ).save(output)  # fmt: skip
        rate = iterations / max(self.seconds, 1e-9)
        self._host.report(Report("end", iterations, iterations, "iterations", self.seconds, rate))
        return result
