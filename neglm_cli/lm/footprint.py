"""How much memory a training takes, computed before any of it is taken. A test compares it with what is taken."""

from neglm_cli.lm.cpu.arrays import spread
from neglm_cli.lm.cpu.batch_parts import PARTS
from neglm_cli.lm.cpu.softmax import BLOCK, ROW
from neglm_cli.lm.cpu.training import SAMPLED_ROWS, SOFTMAX_ROOM
from neglm_cli.lm.parameters import Shape, padded
from neglm_cli.lm.settings import Settings

NUMBER = 4  # bytes
ID = 4
PART = 1
END = 4


def footprint(shape: Shape, settings: Settings) -> dict[str, int]:
    """Bytes, by what they are for; of the processor's device. Rows of tables that a minibatch may touch are counted in
    full, though most of them are never used."""
    words, hidden, rows, threads = shape.words, padded(shape.hidden), settings.batch * settings.bptt, settings.threads
    widths = padded(shape.embedding), padded(shape.hidden + 1)
    layers = shape.layers * 4 * hidden * (max(shape.inputs) + shape.hidden + 1)
    tables = words * sum(widths)
    sampled = settings.loss != "softmax"
    noise_words = rows // settings.group_rows * settings.k if sampled else 0
    shared = noise_words if settings.noise != "token" else 0
    places = (PARTS * shared or noise_words) + rows if sampled else 1
    touched = sum(
        threads * min(words, count) * (width * NUMBER + ID + PARTS * END)
        + count * (threads * ID + ID + NUMBER + PART)
        + words * ID
        for count, width in ((rows, widths[0]), (places, widths[1]))
    )
    row, state = spread(max(shape.inputs)) + padded(max(shape.inputs)), spread(shape.hidden)
    states = shape.layers * (rows * (row + 4 * hidden + state) + 2 * (rows + settings.batch) * state)
    scores = 0 if sampled else min(rows, max(1, SOFTMAX_ROOM // words)) * -(-words // BLOCK) * ROW
    room = rows * (hidden + 3 * widths[1]) + (PARTS + 2) * shared * widths[1] + scores + places + 3 * words
    scoring = threads * ROW * (widths[1] + (SAMPLED_ROWS if sampled else rows))
    return {
        "parameters": NUMBER * (layers + tables),
        "optimiser": NUMBER * (2 * layers + settings.moments * tables),
        "gradients": NUMBER * (layers + (0 if sampled else words * widths[1])) + touched,
        "minibatch": NUMBER * (states + room + scoring + layers),
    }
