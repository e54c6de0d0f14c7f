"""The training of `neglm embed`: progress, checkpoints, what happens when it is cut short, and the summary."""

import os
import signal
import time
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neglm_cli.cli.console import Progress, console
from neglm_cli.cli.corpora import CHECKPOINT_SHARE, state_beside
from neglm_cli.cli.processes import traffic, traffic_text
from neglm_cli.cli.signals import Terminated, as_exception, noted, undisturbed
from neglm_cli.errors import NeglmError, shown
from neglm_cli.scale.ranks import Ranks
from neglm_cli.store.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from neglm_cli.sgns.job import Job
    from neglm_cli.sgns.settings import Settings
    from neglm_cli.text.pairs import Pairs

MOST_ITERATIONS = 100_000  # of --exact


def train(job: "Job", output: str, checkpoint: float) -> dict[str, Any]:
    """Train to the end and write the vectors; what is done so far is written now and then, and if it is cut short."""
    state = state_beside(output)
    processes = job.ranks
    if state and not job.done and os.path.exists(state):
        console.note(
            f"{shown(state)}, of a training that was not finished, will be replaced (--resume goes on with it)"
        )
    trainer = job.trainer()
    trainer.prepare()
    unit = "M pairs" if job.pairs else "M words"
    loss = pairs = seen = 0.0
    last_saved, took = time.monotonic(), 0.0
    begun = job.done
    with Progress("training", job.total, unit, job.done) as progress, _signals(processes) as signals:
        try:
            with closing(trainer.run()) as running:
                for trained in running:
                    if trained.pairs and job.done % job.source.length == 0:
                        loss = pairs = 0.0  # the loss is that of the epoch
                    loss, pairs, seen = loss + trained.loss, pairs + trained.pairs, seen + trained.pairs
                    progress.advance(trainer.done - job.done, f"loss {loss / max(pairs, 1):.4f}")
                    job.done = trainer.done
                    if not trainer.between_rounds or job.done == job.total:
                        continue
                    if processes.any(bool(signals)):  # of several: all of them stop here
                        trainer.average()
                        raise as_exception(signals[0] if signals else signal.SIGTERM)
                    due = time.monotonic() - last_saved > max(checkpoint, CHECKPOINT_SHARE * took)
                    if state and processes.any(due and not console.rank):  # the first process decides
                        started = time.monotonic()
                        for finished in trainer.settle():
                            loss, pairs = loss + finished.loss, pairs + finished.pairs
                        trainer.average()
                        progress.advance(trainer.done - job.done)
                        job.done = trainer.done
                        job.save(state)
                        last_saved = time.monotonic()
                        took = last_saved - started
        except NeglmError as error:
            kept = f"{shown(state)} has the last good state" if begun or took else "nothing was written"
            raise NeglmError(f"{error}; {kept}") from error
        except (KeyboardInterrupt, Terminated):
            with undisturbed():
                job.done = trainer.done
                if state and begun < job.done < job.total:
                    job.save(state)
                    console.note(f"the state is in {shown(state)}: go on with --resume")
            raise
        seconds, rate = progress.seconds, progress.rate
    if not processes.any(bool(seen)) and not begun:
        raise NeglmError(
            "there is nothing to learn: no two words that have vectors stand in one window; nothing was written"
        )
    job.save(output)
    if state and not console.rank:
        with suppress(OSError):
            Path(state).unlink()
    return {
        "output": output,
        "words": len(job.words),
        "contexts": len(job.contexts),
        "size": job.settings.size,
        "trained_on": job.total,
        "unit": "pairs" if job.pairs else "words",
        "epochs": job.settings.epochs,
        "loss": loss / max(pairs, 1),
        "seconds": round(seconds, 3),
        "per_second": round(rate),
        **traffic(processes),
    }


def _signals(processes: Ranks) -> AbstractContextManager[list[int]]:
    """One process is interrupted at once; several go on to the end of a round, where all of them stop."""
    return nullcontext([]) if processes.size == 1 else noted()


def train_exactly(pairs: "Pairs", settings: "Settings", output: str) -> dict[str, Any]:
    from neglm_cli.objective.exact import maximise
    from neglm_cli.vectors.vectors import Vectors

    with Progress("maximising", None, "iterations") as progress:
        result = maximise(
            pairs, settings.size, settings.k, settings.noise_alpha, settings.objective, settings.seed,
            max_iterations=MOST_ITERATIONS,
            report=lambda iteration, score: progress.advance(0, f"iteration {iteration}, S {score:.8f}"),
        )  # fmt: skip
        seconds = progress.seconds
    if not result.converged:
        console.note(f"not converged after {result.iterations:,} iterations: what is left to gain is small")
    Vectors(
        pairs.words, result.vectors.astype("float32"), pairs.contexts, result.context_vectors.astype("float32"),
        settings.objective, settings.k, settings.noise_alpha, settings.stored() | {"pairs": True}, pairs.files,
        {"done": result.iterations, "total": result.iterations},
    ).save(output)  # fmt: skip
    return {
        "output": output,
        "words": len(pairs.words),
        "contexts": len(pairs.contexts),
        "size": settings.size,
        "pairs": pairs.total,
        "score": result.score,
        "divergence": result.divergence,
        "iterations": result.iterations,
        "converged": result.converged,
        "seconds": round(seconds, 3),
    }


def as_text(summary: dict[str, Any]) -> str:
    name = "the vectors" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    lines = [f"{name}: {summary['words']:,} words and {summary['contexts']:,} contexts, {summary['size']} dimensions"]
    if "score" in summary:
        end = "converged" if summary["converged"] else "not converged"
        lines.append(f"  {'S(m)':<16}{summary['score']:.8f} nats per pair, {summary['divergence']:.8f} below S(pmi)")
        lines.append(f"  {'iterations':<16}{summary['iterations']:,}, {end}, in {summary['seconds']:,.1f} s")
    else:
        rate = f"{summary['per_second']:,} {summary['unit']}/s"
        lines.append(
            f"  {'trained on':<16}{summary['trained_on']:,} {summary['unit']} in {summary['epochs']} epochs, "
            f"{summary['seconds']:,.1f} s, {rate}"
        )
        lines.append(f"  {'loss':<16}{summary['loss']:.4f} nats per pair and its noise, in the last epoch")
    return "\n".join([*lines, *traffic_text(summary)])
