"""What a GPU should reach, on paper: FLOP, bytes and launches per word, and from data sheets the words per second.

    python benchmarks/gpu_estimate.py > benchmarks/gpu/estimate.md

Nothing here was measured on a GPU. `neglm doctor` measures on yours.
"""

from dataclasses import dataclass, replace

NUMBER = 4  # bytes
PRODUCT_SHARE = 0.4  # of the data sheet's rate, that the tiled product may reach: assumed
MEMORY_SHARE = 0.7  # of the data sheet's bandwidth: assumed
LAUNCH = 30e-6  # seconds that the host needs to launch a kernel from Python: assumed
STEP = 6e-6  # seconds of a step that no arithmetic hides: waiting for all blocks, and for the state to arrive: assumed
SMALLEST = 4e-6  # seconds that any kernel takes: assumed


@dataclass(frozen=True)
class Gpu:
    """From the makers' data sheets: single precision without tensor cores."""

    name: str
    flops: float
    bandwidth: float


GPUS = (Gpu("T4", 8.1e12, 320e9), Gpu("A100 (40 GB)", 19.5e12, 1555e9), Gpu("RTX 4090", 82.6e12, 1008e9))


@dataclass(frozen=True)
class Model:
    name: str
    words: int
    layers: int
    hidden: int
    batch: int
    steps: int
    k: int
    moments: int
    persistent: bool

    @property
    def rows(self) -> int:
        return self.batch * self.steps

    @property
    def layer_parameters(self) -> int:
        return self.layers * 4 * self.hidden * (2 * self.hidden + 1)

    @property
    def layer_flop(self) -> float:
        """A word: a product forward, one for the gradient of weights, one for that of inputs and states."""
        return 3 * 2 * self.layer_parameters

    @property
    def loss_flop(self) -> float:
        """A word: scores, what they add to the gradient of y, and to those of the output table's rows."""
        return 3 * 2 * (self.k + 1) * (self.hidden + 1)

    @property
    def touched(self) -> float:
        """Different rows of the tables in a minibatch, if words are as frequent as 1 / rank."""
        total = sum(1 / rank for rank in range(1, self.words + 1))
        drawn = self.rows * (self.k + 1)
        return sum(
            (1 - (1 - 1 / rank / total) ** drawn) + (1 - (1 - 1 / rank / total) ** self.rows)
            for rank in range(1, self.words + 1)
        )

    @property
    def memory(self) -> float:
        """Bytes that a minibatch reads and writes, if no cache helps."""
        row = (self.hidden + 1) * NUMBER
        scores = self.rows * (self.k + 1) * row  # rows of the output table, as they are drawn
        gathered = self.rows * (self.k + 1) * row  # rows of y, for the gradient of each occurrence
        updated = self.touched * row * (3 + 2 + 2 * self.moments)  # gradients: written, read twice; parameters, moments
        layers = self.layer_parameters * NUMBER * (5 + 2 * self.moments)
        states = self.rows * self.layers * self.hidden * NUMBER * 30  # inputs, states, gates, and their gradients
        return scores + gathered + updated + layers + states

    @property
    def launches(self) -> int:
        """Of a minibatch: see `lm.cuda.training`."""
        steps = 2 * self.layers * (1 if self.persistent else self.steps)
        return 3 + 1 + self.layers + self.layers + 1 + 2 * self.layers + 1 + 1 + 2 + steps


MODELS = (
    Model("2×300, batch 20, V 10K", 10_000, 2, 300, 20, 20, 100, 0, True),
    Model("1×512, batch 1000, V 64K", 64_000, 1, 512, 1000, 20, 100, 2, False),
    Model("1×512, batch 1000, V 800K", 800_000, 1, 512, 1000, 20, 100, 2, False),
)


def estimate(model: Model, gpu: Gpu) -> tuple[float, str]:
    """Words per second, and what limits them."""
    recurrent = 2 * model.layers * model.steps
    parts = {
        "products": model.rows * model.layer_flop / (PRODUCT_SHARE * gpu.flops),
        "memory": model.memory / (MEMORY_SHARE * gpu.bandwidth),
        "steps, one after the other": recurrent * STEP,
        "small kernels": model.launches * SMALLEST,
    }
    device, host = sum(parts.values()), model.launches * LAUNCH
    limit = "launches by the host" if host > device else max(parts, key=lambda part: parts[part])
    return model.rows / max(device, host), limit


HEAD = """# What a GPU should reach, on paper

**These are estimates, not measurements**: no machine of ours has a GPU. Made by
`benchmarks/gpu_estimate.py`; `neglm doctor` measures on yours. Loss: neglm with k = 100 noise words
of each word's own, 20 steps.

| model | FLOP a word | of these the LSTM | bytes a word | rows touched | launches a minibatch | a word |
|---|---|---|---|---|---|---|"""

WHERE_FROM = """
FLOP: three products for each weight of the LSTM (there, back to the inputs, back to the weights),
and three of a row for each word and noise word. Bytes: rows of the output table for scores, rows of
y for their gradients, the rows that are moved with their gradients and what the optimiser keeps,
weights, and the states on the way; no cache is counted on. Rows touched: different ones in a
minibatch, for words as frequent as 1 / rank.

| model | GPU | data sheet | words/s expected | what limits it |
|---|---|---|---|---|"""

ASSUMED = """
Assumed, not known: products reach {products:.0%} of the data sheet's rate in single precision,
memory {memory:.0%} of its bandwidth; a launch from Python takes the host {launch:.0f} µs; a step
waits {step:.0f} µs for the others, whatever it computes; no kernel takes less than {smallest:.0f}
µs.

At batch 20 all steps of a layer are one launch. With a launch for each step a minibatch would have
{many} of them: {host:.1f} ms of the host's time, and {slow:,.0f} words/s at most, on any GPU."""


def main() -> None:
    print(HEAD)
    for model in MODELS:
        flop, number = model.layer_flop + model.loss_flop, model.memory / model.rows
        print(
            f"| {model.name} | {flop / 1e6:.1f} M | {model.layer_flop / flop:.0%} | {number / 1e3:,.0f} K "
            f"| {model.touched:,.0f} | {model.launches} | {model.launches / model.rows:.4f} |"
        )
    print(WHERE_FROM)
    for model in MODELS:
        for gpu in GPUS:
            rate, limit = estimate(model, gpu)
            sheet = f"{gpu.flops / 1e12:.1f} TFLOP/s, {gpu.bandwidth / 1e9:,.0f} GB/s"
            print(f"| {model.name} | {gpu.name} | {sheet} | {rate:,.0f} | {limit} |")
    small = replace(MODELS[0], persistent=False)
    host = small.launches * LAUNCH
    print(
        ASSUMED.format(
            products=PRODUCT_SHARE, memory=MEMORY_SHARE, launch=LAUNCH * 1e6, step=STEP * 1e6, smallest=SMALLEST * 1e6,
            many=small.launches, host=host * 1e3, slow=small.rows / host,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
