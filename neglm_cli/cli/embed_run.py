"""The summary of `neglm embed`."""

from typing import TYPE_CHECKING, Any

from neglm_cli.cli.processes import traffic, traffic_text
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
        "words": len(job.words),
        "contexts": len(job.contexts),
        "size": job.settings.size,
        "trained_on": job.total,
        "unit": training.unit,
        "epochs": job.settings.epochs,
        "loss": training.loss,
        "seconds": round(loop.seconds, 3),
        "per_second": round(loop.rate),
        **traffic(job.ranks),
    }


def full_batch_summary(training: "FullBatchTraining", result: "Result", output: str) -> dict[str, Any]:
    """Return the results of a run with --exact."""
    pairs = training.pairs
    return {
        "output": output,
        "words": len(pairs.words),
        "contexts": len(pairs.contexts),
        "size": training.settings.size,
        "pairs": pairs.total,
        "score": result.score,
        "divergence": result.divergence,
        "iterations": result.iterations,
        "converged": result.converged,
        "seconds": round(training.seconds, 3),
    }


def _table_size(summary: dict[str, Any]) -> str:
    words, contexts = count_of(summary["words"], "word"), count_of(summary["contexts"], "context")
    return f"{words} and {contexts}, {count_of(summary['size'], 'dimension')}"


def as_text(summary: dict[str, Any]) -> str:
    name = "the vectors" if summary["output"] in STANDARD_OUTPUT else shown(summary["output"])
    lines = [f"{name}: {_table_size(summary)}"]
    if "score" in summary:
        end = "converged" if summary["converged"] else "not converged"
        lines.append(f"  {'S(m)':<16}{summary['score']:.8f} nats per pair, {summary['divergence']:.8f} below S(pmi)")
        lines.append(f"  {'iterations':<16}{summary['iterations']:,}, {end}, in {summary['seconds']:,.1f} s")
    else:
        rate = f"{summary['per_second']:,} {summary['unit']}/s"
        lines.append(
            f"  {'trained on':<16}{count_of(summary['trained_on'], summary['unit'].removesuffix('s'))} in "
            f"{count_of(summary['epochs'], 'epoch')}, "
            f"{summary['seconds']:,.1f} s, {rate}"
        )
        lines.append(f"  {'loss':<16}{summary['loss']:.4f} nats per pair and its noise, in the last epoch")
    return "\n".join([*lines, *traffic_text(summary)])
