"""Language models as ONNX graphs.

    stateful   ids, h, c → log_probs, next_h, next_c: any number of steps at a time
    scoring    x, x_lens → nll: the negative log-likelihood of whole lines, each with its end

The scoring graph and the metadata have the names of icefall's rnn_lm export, which sherpa-onnx reads. Sequences start
with `<eos>`, which is both the start and the end of a line. Shapes: N sequences, T time steps, L layers, H hidden
units, V words.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from neglm_cli import __version__
from neglm_cli.interop.network import Layer, Network

OPSET, IR_VERSION = 17, 8  # of 2022, for older runtimes
GATES = (0, 3, 1, 2)  # ONNX orders gates i, o, f, g
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT


class Builder:
    """Collects the nodes and constants of a graph. prefix: makes the names of a subgraph's values unique."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._nodes: list[Any] = []
        self._constants: dict[str, TensorProto] = {}

    def constant(self, name: str, value: np.ndarray | Sequence[int]) -> str:
        array = np.ascontiguousarray(value, None if isinstance(value, np.ndarray) else np.int64)
        self._constants.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return its name."""
        return self.add_all(
            operator, [name or f"{self._prefix}{operator.lower()}_{len(self._nodes)}"], *inputs, **attributes
        )[0]

    def add_all(self, operator: str, outputs: list[str], *inputs: str, **attributes: Any) -> list[str]:
        name = f"{self._prefix}{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, outputs, name=name, **attributes))
        return outputs

    def graph(self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> GraphProto:
        return helper.make_graph(self._nodes, name, inputs, outputs, list(self._constants.values()))


def stateful(network: Network) -> ModelProto:
    """Return the graph that reads words one by one, or many, and returns its state."""
    build, layers, hidden, words = Builder(), len(network.layers), network.hidden, len(network.words)
    by_time = build.add("Transpose", "ids", perm=[1, 0])
    h, c = (
        build.add_all("Split", [f"{state}_{n}" for n in range(layers)], state, axis=0) if layers > 1 else [state]
        for state in ("h", "c")
    )
    x, last_h, last_c = build.add("Gather", _embedding(build, network), by_time), [], []
    for number, layer in enumerate(network.layers):
        if network.reset_at_eos:
            keep = _keep(build, by_time, network.end_of_line)
            x, *last = _resetting_lstm(build, number, layer, x, h[number], c[number], keep)
        else:
            x, *last = _lstm(build, number, layer, x, h[number], c[number])
        last_h.append(last[0])
        last_c.append(last[1])
    _log_probabilities(build, network, x, name="log_probs")
    build.add("Concat", *last_h, name="next_h", axis=0)
    build.add("Concat", *last_c, name="next_c", axis=0)
    state: list[str | int] = [layers, "N", hidden]
    inputs = [_value("ids", INT64, ["N", "T"]), _value("h", FLOAT, state), _value("c", FLOAT, state)]
    outputs = [_value("log_probs", FLOAT, ["N", "T", words])]
    outputs += [_value("next_h", FLOAT, state), _value("next_c", FLOAT, state)]
    return _model(build.graph("neglm", inputs, outputs), network, "rnnlm state")


def scoring(network: Network) -> ModelProto:
    """Return the graph that scores lines: x int64 (N, T) without starts and ends, padded; x_lens int64 (N,)."""
    build, end = Builder(), network.end_of_line
    one, two = build.constant("axis_1", [1]), build.constant("axis_2", [2])
    rows = build.add("Shape", "x", start=0, end=1)
    column = build.add("Expand", build.constant("end", np.array([[end]])), build.add("Concat", rows, one, axis=0))
    read = build.add("Concat", column, "x", axis=1)  # (N, T + 1)
    time = build.add(
        "Range", build.constant("zero", np.array(0)), build.add("Squeeze", build.add("Shape", read, start=1)),
        build.constant("one", np.array(1)),
    )  # fmt: skip
    lengths = build.add("Unsqueeze", "x_lens", one)
    at_end = build.add("Equal", time, lengths)
    targets = build.add("Where", at_end, column, build.add("Concat", "x", column, axis=1))
    x = build.add("Gather", _embedding(build, network), build.add("Transpose", read, perm=[1, 0]))
    for number, layer in enumerate(network.layers):
        x = _lstm(build, number, layer, x)[0]
    log_probabilities = _log_probabilities(build, network, x)
    picked = build.add("GatherElements", log_probabilities, build.add("Unsqueeze", targets, two), axis=2)
    inside = build.add("Cast", build.add("LessOrEqual", time, lengths), to=FLOAT)
    of_line = build.add("Mul", build.add("Squeeze", picked, two), inside)
    build.add("Neg", build.add("ReduceSum", of_line, one, keepdims=0), name="nll")
    inputs = [_value("x", INT64, ["N", "T"]), _value("x_lens", INT64, ["N"])]
    graph = build.graph("neglm", inputs, [_value("nll", FLOAT, ["N"])])
    return _model(graph, network, "rnnlm without state")


def _embedding(build: Builder, network: Network) -> str:
    return build.constant("embedding", network.embedding)


def _lstm(build: Builder, number: int, layer: Layer, x: str, h: str = "", c: str = "") -> list[str]:
    """Add a layer: x (T, N, I) to y (T, N, H), and its last h and c, each (1, N, H). No h and c: zeros."""
    hidden = layer.w_hh.shape[0]
    w, r, bias = (_gates(array) for array in layer)
    weights = [build.constant(f"w_{number}", w.T[None]), build.constant(f"r_{number}", r.T[None])]
    biases = build.constant(f"b_{number}", np.concatenate([bias, np.zeros_like(bias)])[None])
    outputs = [f"{name}_{number}" for name in ("y", "last_h", "last_c")]
    build.add_all("LSTM", outputs, x, *weights, biases, "", h, c, hidden_size=hidden)
    return [build.add("Squeeze", outputs[0], build.constant("axis_1", [1])), *outputs[1:]]


def _gates(array: np.ndarray) -> np.ndarray:
    """Reorder the gates, in columns."""
    parts = np.split(array, 4, axis=-1)
    return np.concatenate([parts[gate] for gate in GATES], axis=-1)


def _keep(build: Builder, words: str, end: int) -> str:
    """Return a mask (T, N, 1) that is 0 where the state is reset: before an end of line is read."""
    other = build.add("Not", build.add("Equal", words, build.constant("end", np.array(end))))
    return build.add("Unsqueeze", build.add("Cast", other, to=FLOAT), build.constant("axis_2", [2]))


def _resetting_lstm(build: Builder, number: int, layer: Layer, x: str, h: str, c: str, keep: str) -> list[str]:
    """Add a layer as in `_lstm` that multiplies its state by a mask before each step, which ONNX's LSTM cannot do."""
    prefix = f"step_{number}_"
    body = Builder(prefix)
    weights = [build.constant(f"{name}_{number}", array) for name, array in layer._asdict().items()]
    from_x = build.add("Add", build.add("MatMul", x, weights[0]), weights[2])  # (T, N, 4H)
    kept_h, kept_c = (body.add("Mul", f"{prefix}{name}", f"{prefix}keep") for name in ("h", "c"))
    z = body.add("Add", f"{prefix}x", body.add("MatMul", kept_h, weights[1]))
    i, f, g, o = body.add_all("Split", [f"{prefix}{gate}" for gate in "ifgo"], z, axis=1)
    kept = body.add("Mul", body.add("Sigmoid", f), kept_c)
    new = body.add("Mul", body.add("Sigmoid", i), body.add("Tanh", g))
    body.add("Add", kept, new, name=f"{prefix}next_c")
    body.add("Mul", body.add("Sigmoid", o), body.add("Tanh", f"{prefix}next_c"), name=f"{prefix}next_h")
    body.add("Identity", f"{prefix}next_h", name=f"{prefix}y")
    hidden = layer.w_hh.shape[0]
    widths = {"h": hidden, "c": hidden, "x": 4 * hidden, "keep": 1}
    inputs = [_value(f"{prefix}{name}", FLOAT, ["N", width]) for name, width in widths.items()]
    outputs = [_value(f"{prefix}{name}", FLOAT, ["N", hidden]) for name in ("next_h", "next_c", "y")]
    first = build.constant("axis_0", [0])
    last_h, last_c, y = build.add_all(
        "Scan", [f"{name}_{number}" for name in ("last_h", "last_c", "y")],
        build.add("Squeeze", h, first), build.add("Squeeze", c, first), from_x, keep,
        num_scan_inputs=2, body=body.graph(f"step_{number}", inputs, outputs),
    )  # fmt: skip
    return [y, build.add("Unsqueeze", last_h, first), build.add("Unsqueeze", last_c, first)]


def _log_probabilities(build: Builder, network: Network, y: str, name: str = "") -> str:
    """Add the output layer: y (T, N, H) to (N, T, V)."""
    by_row = build.add("Transpose", y, perm=[1, 0, 2])
    product = build.add("MatMul", by_row, build.constant("output", network.output.T))
    logits = build.add("Add", product, build.constant("output_bias", network.output_bias))
    return build.add("LogSoftmax", logits, name=name, axis=-1)


def _value(name: str, dtype: int, shape: Sequence[str | int]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _model(graph: GraphProto, network: Network, comment: str) -> ModelProto:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    model.producer_name, model.producer_version = "neglm", __version__
    metadata = {
        "model_type": "rnnlm", "version": "1", "model_author": "neglm", "comment": comment,
        "sos_id": network.end_of_line, "eos_id": network.end_of_line, "vocab_size": len(network.words),
        "num_layers": len(network.layers), "hidden_size": network.hidden, "embedding_dim": network.embedding.shape[1],
    }  # fmt: skip
    helper.set_model_props(model, {name: str(value) for name, value in metadata.items()})
    return model
