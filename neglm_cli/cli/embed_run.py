"""The training of `neglm embed`: progress, checkpoints, what happens when it is cut short, and the summary."""

import signal
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import console
from neglm_cli.cli.corpora import CHECKPOINT_SHARE, last_state, state_beside
from neglm_cli.cli.processes import traffic, traffic_text
from neglm_cli.cli.progress import Progress
from neglm_cli.cli.signals import Terminated, noted
from neglm_cli.errors import NeglmError, count_of, shown
from neglm_cli.store.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from neglm_cli.settings.embed import Settings
    from neglm_cli.sgns.job import Job
    from neglm_cli.sgns.trainer import Trained
    from neglm_cli.text.pairs import Pairs

MOST_ITERATIONS = 100_000  # of --full-batch


class Run:
    """One run of a training, from its start or from where another stopped, to its end or to an interruption."""

    def __init__(self, job: "Job", output: str, checkpoint: float) -> None:
        self._job = job
        self._output = output
        self._state = state_beside(output)
        self._checkpoint = checkpoint
        self._trainer = job.trainer()
        self._trainer.prepare()
        self._begun = job.done
        self._is_saved = bool(job.done)  # whether the state on the disk is of this training
        self._saved, self._took = time.monotonic(), 0.0
        self._loss = self._pairs = 0.0  # of the epoch
        self._seen = 0  # pairs of this run
        self._progress = Progress("training", job.total, "M pairs" if job.pairs else "M words", job.done)

    def train(self) -> dict[str, Any]:
        """Train to the end and write the vectors; what is done so far is written now and then, and if it is cut short.

        Signals are only noted, and looked at between stretches: what threads have begun is finished and counted."""
        processes = self._job.ranks
        with noted() as signals:
            with self._progress:
                try:
                    is_whole = self._work(signals)
                except NeglmError as error:
                    kept = last_state(self._state) if self._is_saved else "nothing was written"
                    raise NeglmError(f"{error}; {kept}") from error
                seconds, rate = self._progress.seconds, self._progress.rate  # without the writing at the end
            if not is_whole:
                self._keep_state()
                raise Terminated(signals[0] if signals else signal.SIGTERM)  # or it came to another process
            if not processes.any(bool(self._seen)) and not self._begun:
                raise NeglmError(
                    "there is nothing to learn: no two words that have vectors stand in one window; nothing was written"
                )
            self._finish()
        return self._summary(seconds, rate)

    def _work(self, signals: list[int]) -> bool:
        """Whether it came to the end; several processes stop at the same place."""
        job, trainer = self._job, self._trainer
        with closing(trainer.run()) as running:
            for trained in running:
                self._after_stretch(trained)
                if not trainer.between_rounds or job.done == job.total:
                    continue
                if job.ranks.any(bool(signals)):
                    trainer.average()
                    break
                due = time.monotonic() - self._saved > max(self._checkpoint, CHECKPOINT_SHARE * self._took)
                if self._state and job.ranks.any(due and not console.rank):  # the first process decides
                    self._save_state()
        job.done = trainer.done
        return job.done == job.total

    def _after_stretch(self, trained: "Trained") -> None:
        job = self._job
        if trained.pairs and job.done % job.source.length == 0:
            self._loss = self._pairs = 0.0
        self._loss, self._pairs = self._loss + trained.loss, self._pairs + trained.pairs
        self._seen += trained.pairs
        self._progress.advance(self._trainer.done - job.done, f"loss {self._loss / max(self._pairs, 1):.4f}")
        job.done = self._trainer.done

    def _save_state(self) -> None:
        started = time.monotonic()
        for finished in self._trainer.settle():
            self._after_stretch(finished)
        self._trainer.average()
        self._job.save(self._state)
        self._saved = time.monotonic()
        self._took = self._saved - started
        self._is_saved = True

    def _keep_state(self) -> None:
        if self._state and self._job.done > self._begun:
            self._job.save(self._state)
            console.note(f"the state is in {shown(self._state)}: go on with --resume")

    def _finish(self) -> None:
        self._job.save(self._output)
        if self._state and not console.rank:
            with suppress(OSError):
                Path(self._state).unlink()

    def _summary(self, seconds: float, rate: float) -> dict[str, Any]:
        job = self._job
        return {
            "output": self._output,
            "objective": job.settings.objective,
            "vocabulary": len(job.words),
            "contexts": len(job.contexts),
            "dimensions": job.settings.size,
            "pairs" if job.pairs else "tokens": job.total,
            "epochs": job.settings.epochs,
            "loss": self._loss / max(self._pairs, 1),
            "seconds": round(seconds, 3),
            "pairs_per_second" if job.pairs else "words_per_second": round(rate),
            **traffic(job.ranks),
        }


def train_exactly(pairs: "Pairs", settings: "Settings", output: str) -> dict[str, Any]:
    from neglm_cli.objective.exact import maximize
    from neglm_cli.vectors.vectors import Vectors

    with Progress("maximizing", None, "iterations") as progress:
        result = maximize(
            pairs, settings.size, settings.k, settings.noise_alpha, settings.objective, settings.seed,
            max_iterations=MOST_ITERATIONS,
            report=lambda iteration, score: progress.advance(0, f"iteration {iteration}, S {score:.8f}"),
        )  # fmt: skip
        seconds = progress.seconds
    if not result.converged:
        console.note(f"not converged after {count_of(result.iterations, 'iteration')}: what is left to gain is small")
    Vectors(
        pairs.words, result.vectors.astype("float32"), pairs.contexts, result.context_vectors.astype("float32"),
        settings.objective, settings.k, settings.noise_alpha, settings.stored() | {"pairs": True}, pairs.files,
        {"done": result.iterations, "total": result.iterations},
    ).save(output)  # fmt: skip
    return {
        "output": output,
        "objective": settings.objective,
        "vocabulary": len(pairs.words),
        "contexts": len(pairs.contexts),
        "dimensions": settings.size,
        "pairs": pairs.total,
        "log_likelihood": result.score,
        "kl_divergence": result.divergence,
        "iterations": result.iterations,
        "converged": result.converged,
        "seconds": round(seconds, 3),
    }


def _table_size(summary: dict[str, Any]) -> str:
    words, contexts = count_of(summary["vocabulary"], "word"), count_of(summary["contexts"], "context")
    return f"{words} and {contexts}, {count_of(summary['dimensions'], 'dimension')}"


def as_text(summary: dict[str, Any]) -> str:
    name = "the vectors" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    lines = [f"{name}: {_table_size(summary)}"]
    if "log_likelihood" in summary:
        end = "converged" if summary["converged"] else "not converged"
        lines.append(f"  {'log-likelihood':<16}{summary['log_likelihood']:.8f} nats per pair")
        lines.append(f"  {'KL divergence':<16}{summary['kl_divergence']:.8f} nats per pair, from the PMI matrix")
        lines.append(f"  {'iterations':<16}{summary['iterations']:,}, {end}, in {summary['seconds']:,.1f} s")
    else:
        if "pairs" in summary:
            amount, rate = count_of(summary["pairs"], "pair"), f"{summary['pairs_per_second']:,} pairs/s"
        else:
            amount, rate = count_of(summary["tokens"], "token"), f"{summary['words_per_second']:,} words/s"
        epochs = count_of(summary["epochs"], "epoch")
        lines.append(f"  {'trained on':<16}{amount} in {epochs}, {summary['seconds']:,.1f} s, {rate}")
        lines.append(f"  {'loss':<16}{summary['loss']:.4f} nats per pair and its noise, in the last epoch")
    return "\n".join([*lines, *traffic_text(summary)])
