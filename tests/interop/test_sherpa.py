"""sherpa-onnx rescores with an exported model: of words that sound alike, it picks those that `neglm score` prefers."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Neglm
from tests.interop.making import line_scores, train

onnx = pytest.importorskip("onnx")
sherpa_onnx = pytest.importorskip("sherpa_onnx")

BLANK, FRAMES = 0, 5
SURE, NEVER = 10, -30  # logits


def save(path: str, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: dict[str, Any], **metadata: int
         ) -> None:  # fmt: skip
    helper = onnx.helper
    arrays = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "recognizer", inputs, outputs, arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {name: str(value) for name, value in metadata.items()})
    onnx.save(model, path)


def save_recognizer(heard: list[list[int]], words: int) -> None:
    """Write a transducer that hears one of two words at each of the first frames, whatever the sound, then nothing."""
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    float_, int64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    logits = np.full((1, FRAMES, words), NEVER, np.float32)
    logits[0, len(heard) :, BLANK] = SURE
    for frame, candidates in enumerate(heard):
        logits[0, frame, candidates] = SURE
    rows = node("Shape", ["x"], ["rows"], start=0, end=1)
    encoder = [
        rows, node("Concat", ["rows", "rest"], ["shape"], axis=0), node("Expand", ["logits", "shape"], ["encoder_out"]),
        node("Mul", ["x_lens", "zero"], ["zeros"]), node("Add", ["zeros", "frames"], ["encoder_out_lens"]),
    ]  # fmt: skip
    save(
        "encoder.onnx", encoder, [value("x", float_, ["N", "T", 80]), value("x_lens", int64, ["N"])],
        [value("encoder_out", float_, ["N", "S", words]), value("encoder_out_lens", int64, ["N"])],
        {"logits": logits, "rest": [FRAMES, words], "zero": 0, "frames": FRAMES}, version=1,
    )  # fmt: skip
    decoder = [
        node("Shape", ["y"], ["rows"], start=0, end=1), node("Concat", ["rows", "width"], ["shape"], axis=0),
        node("ConstantOfShape", ["shape"], ["decoder_out"]),
    ]  # fmt: skip
    outputs = [value("decoder_out", float_, ["N", words])]
    save("decoder.onnx", decoder, [value("y", int64, ["N", 2])], outputs, {"width": [words]},
         vocab_size=words, context_size=2)  # fmt: skip
    joined = [value(name, float_, ["N", words]) for name in ("encoder_out", "decoder_out", "logit")]
    add = node("Add", ["encoder_out", "decoder_out"], ["logit"])
    save("joiner.onnx", [add], joined[:2], joined[2:], {}, joiner_dim=words)


def recognized() -> list[str]:
    recognizer = sherpa_onnx.OfflineRecognizer.from_transducer(
        "encoder.onnx", "decoder.onnx", "joiner.onnx", "tokens.txt", decoding_method="modified_beam_search",
        max_active_paths=8, lm="lm.no-state.onnx", lm_scale=1.0,
    )  # fmt: skip
    stream = recognizer.create_stream()
    stream.accept_waveform(16000, np.zeros(8000, np.float32))
    recognizer.decode_stream(stream)
    return str(stream.result.text).split()


def test_sherpa_onnx_prefers_what_neglm_prefers(neglm: Neglm) -> None:
    train(neglm, "neglm-b")
    neglm("export", "--onnx", "lm.onnx")
    words = [line.split(" ")[0] for line in Path("lm.tokens.txt").read_text().splitlines()]
    Path("tokens.txt").write_text("".join(f"▁{word} {number}\n" for number, word in enumerate(words)))
    ordinary = [number for number, word in enumerate(words) if number != BLANK and not word.startswith("<")]
    random = np.random.default_rng(1)
    for _ in range(5):
        heard = random.choice(ordinary, (3, 2), replace=False).tolist()
        save_recognizer(heard, len(words))
        candidates = [[words[number] for number in line] for line in product(*heard)]
        Path("test.txt").write_text("".join(" ".join(line) + "\n" for line in candidates))
        assert recognized() == candidates[int(line_scores(neglm).argmax())]
