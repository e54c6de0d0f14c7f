"""The summary of `neglm embed`."""

from typing import TYPE_CHECKING, Any

from neglm_cli.cli.mpi import traffic, traffic_text
from neglm_cli.errors import count_of, shown
from neglm_cli.runs.loop import Loop
from neglm_cli.store.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from neglm_cli.objective.exact import Result
    from neglm_cli.runs.embed_training import EmbedTraining
    from neglm_cli.runs.full_batch import FullBatchTraining


def summary_of(training: "EmbedTraining", loop: Loop, output: str) -> dict[str, Any]:
    """Return the results of a run, for --json."""
    job = training.job
    return {
        "output": output,
        "objective": job.settings.objective,
        "vocabulary": len(job.words),
        "contexts": len(job.contexts),
        "dimensions": job.settings.size,
        "pairs" if job.pairs else "tokens": job.total,
        "epochs": job.settings.epochs,
        "loss": training.loss,
        "seconds": round(loop.seconds, 3),
        "pairs_per_second" if job.pairs else "words_per_second": round(loop.rate),
        **traffic(job.ranks),
    }


def full_batch_summary(training: "FullBatchTraining", result: "Result", output: str) -> dict[str, Any]:
    """Return the results of a run with --full-batch."""
    pairs = training.pairs
    return {
        "output": output,
        "objective": training.settings.objective,
        "vocabulary": len(pairs.words),
        "contexts": len(pairs.contexts),
        "dimensions": training.settings.size,
        "pairs": pairs.total,
        "log_likelihood": result.score,
        "kl_divergence": result.divergence,
        "iterations": result.iterations,
        "converged": result.converged,
        "seconds": round(training.seconds, 3),
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
