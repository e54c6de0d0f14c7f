"""Speed of `neglm embed` and quality of its vectors, compared with gensim and fastText at the same settings.

    python benchmarks/embed.py [--data DIR] [--rounds N] [--seeds 3|2-3] [--sizes 100,300] [--megabytes N]
                               [--part speed|quality|both|subwords|subwords-quality|cbow|cbow-quality] [--only NAME]

Speed: each contestant trains for one epoch per round; words/s exclude counting and writing. Ratios compare rates of the
same round, and the result is the median over rounds.
Quality: five epochs for every seed, all evaluated by `neglm eval`; figures are means over seeds, in points.
With `--seeds 2-3 --only fastText`, further seeds of one contestant.
Subwords: n-grams of 3 to 6 characters in 2,000,000 buckets, compared with fastText alone. Rare words are forms such as
`dances` that occur fewer than five times, so that they are not in the vocabulary, of words that occur a thousand times;
the figure is the share of forms with that word among their ten nearest neighbors.
CBOW: compared with gensim, both with word2vec's learning rate of 0.05 and the mean of contexts.
The speed with subwords and of CBOW is measured on the first 20 MB of the text, unless --megabytes says otherwise.
In the other parts, fastText trains without subwords (maxn 0), like word2vec. It does not report its training time, so
its rate is that of the second epoch: the difference between runs of two epochs and of one. Each run is a separate
process: fastText initializes only a tenth of its matrix for each thread, and finds the rest as the memory is, zeros
only if it is new. Its function for Python takes no seed, but its table of defaults does.
"""

import argparse
import json
import statistics
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from side_by_side import (
    NEGLM,
    THREADS,
    Peer,
    compare,
    find_peer,
    option_parser,
    output,
    printed_json,
    text_of,
    workplace,
)

SETTINGS = ["--window", "5", "--k", "5", "--sample", "1e-4", "--min-count", "5", "--threads", THREADS]
GENSIM = """
import json, sys, time
from gensim.models import Word2Vec
from gensim.models.word2vec import LineSentence
size, epochs, seed = map(int, sys.argv[1:4])
cbow = dict(sg=0, cbow_mean=1, alpha=0.05) if sys.argv[4:] == ["cbow"] else dict(sg=1)
model = Word2Vec(vector_size=size, window=5, negative=5, sample=1e-4, min_count=5, hs=0, workers=2, seed=seed, **cbow)
model.build_vocab(LineSentence("corpus.txt"))
start = time.perf_counter()
model.train(LineSentence("corpus.txt"), total_words=model.corpus_total_words, epochs=epochs)
seconds = time.perf_counter() - start
model.wv.save_word2vec_format("trained.bin", binary=True)
print(json.dumps({"per_second": model.corpus_total_words * epochs / seconds}))
"""
FASTTEXT = """
import json, sys, time
import fasttext
size, epochs, seed = map(int, sys.argv[1:4])
ngrams = dict(minn=3, maxn=6, bucket=2_000_000) if sys.argv[4:] == ["subwords"] else dict(minn=0, maxn=0, bucket=0)
fasttext.FastText.unsupervised_default["seed"] = seed
start = time.perf_counter()
model = fasttext.train_unsupervised("corpus.txt", model="skipgram", dim=size, ws=5, neg=5, t=1e-4, minCount=5, lr=0.025,
    thread=2, epoch=epochs, verbose=0, **ngrams)
seconds = time.perf_counter() - start
if ngrams["maxn"]:
    model.save_model("trained.bin")
words = [word for word in model.words if word != "</s>"]
with open("trained.vec", "w", encoding="utf-8") as file:
    print(len(words), size, file=file)
    for word in words:
        print(word, *(format(x, ".6g") for x in model.get_word_vector(word)), file=file)
print(json.dumps({"seconds": seconds}))
"""
OURS, DETERMINISTIC = "neglm embed", "neglm embed --deterministic"
SUBWORDS, CBOW, CBOW_DETERMINISTIC = (
    "neglm embed --subwords",
    "neglm embed --cbow",
    "neglm embed --cbow --deterministic",
)
OPTIONS = {
    OURS: [],
    DETERMINISTIC: ["--deterministic"],
    SUBWORDS: ["--subwords", "3-6", "--buckets", "2000000"],
    CBOW: ["--cbow"],
    CBOW_DETERMINISTIC: ["--cbow", "--deterministic"],
}
SUFFIXES = ("s", "ed", "ing", "ly", "er", "ness")
FORMS = 500  # rare words that are evaluated
PROGRAMS = {"gensim": (GENSIM, "trained.bin"), "fastText": (FASTTEXT, "trained.vec")}
FIGURES = ("WordSim-353", "SimLex-999", "analogies")
PARTS = ("speed", "quality", "both", "subwords", "subwords-quality", "cbow", "cbow-quality")
MEGABYTES = 20  # of text, for the speed with subwords and of CBOW
EPOCHS = 3  # of ours, there: an epoch of 20 MB takes two seconds


def train(contestant: str | Peer, size: int, epochs: int, seed: int, *mode: str) -> None:
    """Train on corpus.txt, and write the vectors to trained.safetensors. mode: `subwords` or `cbow`, of peers."""
    if isinstance(contestant, Peer):
        program, vectors = PROGRAMS[contestant.name.split()[0]]
        vectors = "trained.bin" if mode == ("subwords",) else vectors
        output(contestant.python, "-c", program, str(size), str(epochs), str(seed), *mode)
        output(NEGLM, "import", vectors, "-o", "trained.safetensors", "--quiet")
    else:
        output(*command(contestant, size, epochs, seed))


def command(contestant: str, size: int, epochs: int, seed: int) -> list[str]:
    options = OPTIONS[contestant]
    arguments = ["--size", str(size), "--epochs", str(epochs), "--seed", str(seed)]
    return [NEGLM, "embed", "--json", *SETTINGS, *options, *arguments, "-o", "trained.safetensors"]


def our_rate(contestant: str, size: int, epochs: int = 1) -> float:
    """Train. Return words per second."""
    return float(printed_json(*command(contestant, size, epochs, 1))["words_per_second"])


def gensim_rate(peer: Peer, size: int, epochs: int = 1, *mode: str) -> float:
    return float(printed_json(peer.python, "-c", GENSIM, str(size), str(epochs), "1", *mode)["per_second"])


def fasttext_rate(peer: Peer, size: int, words: int, *mode: str) -> float:
    one, two = (printed_json(peer.python, "-c", FASTTEXT, str(size), epochs, "1", *mode)["seconds"] for epochs in "12")
    if two <= one:
        sys.exit("two epochs of fastText took no longer than one: the machine is too busy, or the text too short")
    return float(words / (two - one))


def quality(data: Path) -> tuple[float, float, float]:
    """Evaluate WordSim-353 and SimLex-999 (Spearman) and analogies (3CosAdd), in points."""
    sets = [str(data / "similarity" / name) for name in ("ws353.tsv", "simlex999.tsv")]
    questions = str(data / "analogy" / "questions-words.txt")
    files = ["--similarity", *sets, "--analogy", questions]
    result = printed_json(NEGLM, "eval", "trained.safetensors", *files, "--fold-case", "--method", "add", "--json")
    similar = [entry["spearman"] for entry in result["similarity"]]
    accuracy = result["analogy"][0]["total"]["add"]["accuracy"]
    return 100 * similar[0], 100 * similar[1], 100 * accuracy


def seed_range(text: str) -> range:
    """Parse the number of seeds, or the first and the last one."""
    first, _, last = text.rpartition("-")
    return range(int(first or 1), int(last) + 1)


def main() -> None:
    parser = option_parser(__doc__, rounds=3)
    parser.add_argument("--seeds", type=seed_range, default="3", metavar="N|A-B", help="seeds 1 to N, or A to B")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="for quality, only contestants with this in the name"
    )
    parser.add_argument("--sizes", default="100,300")
    parser.add_argument("--megabytes", type=int, metavar="N", help="use only the first N MB of the text")
    parser.add_argument("--part", choices=PARTS, default="both")
    options = parser.parse_args()
    text = text_of(options, "wiki", "wiki100.txt")
    length = options.megabytes or (MEGABYTES if options.part in ("subwords", "cbow") else None)
    if length and length * 10**6 < len(text):
        text = text[: text.rindex(b" ", 0, length * 10**6)] + b"\n"
    sizes = [int(size) for size in options.sizes.split(",")]
    found = {name: find_peer(name.lower(), name, options.peers) for name in PROGRAMS}
    with workplace():
        Path("corpus.txt").write_bytes(text)
        output(NEGLM, "vocab", "corpus.txt", "--quiet")
        for contestant in (OURS, DETERMINISTIC):
            our_rate(contestant, sizes[0])  # compiles kernels, and writes the encoded copy
        if options.part in ("both", "speed", "quality"):
            peers = [peer for peer in found.values() if peer]
            for size in sizes:
                if options.part != "quality":
                    compare_speed(size, peers, len(text.split()), options)
                if options.part != "speed" and not options.small:
                    compare_quality(size, [OURS, DETERMINISTIC, *peers], options)
        elif options.part.startswith("subwords"):
            compare_subwords(sizes[0], found["fastText"], text, options)
        else:
            compare_cbow(sizes[0], found["gensim"], options)


def compare_speed(size: int, peers: list[Peer], words: int, options: argparse.Namespace) -> None:
    runs = {contestant: partial(our_rate, contestant, size) for contestant in (OURS, DETERMINISTIC)}
    for peer in peers:
        gensim = peer.name.startswith("gensim")
        runs[peer.name] = partial(gensim_rate, peer, size) if gensim else partial(fasttext_rate, peer, size, words)
    rates = compare("embed", f"size {size}", "words/s", runs, {peer.name for peer in peers}, options)
    share = statistics.median(a / b for a, b in zip(rates[DETERMINISTIC], rates[OURS], strict=True))
    print(f"  --deterministic runs at {share:.2f} of the speed\n", flush=True)


def compare_subwords(size: int, peer: Peer | None, text: bytes, options: argparse.Namespace) -> None:
    if options.part == "subwords":
        runs: dict[str, Callable[[], float]] = {SUBWORDS: partial(our_rate, SUBWORDS, size, EPOCHS)}
        runs[SUBWORDS]()  # compiles kernels
        if peer:
            runs[peer.name] = partial(fasttext_rate, peer, size, len(text.split()), "subwords")
        compare("embed", f"size {size}, subwords", "words/s", runs, {peer.name} if peer else set(), options)
    elif not options.small:
        compare_quality(size, [SUBWORDS, *([peer] if peer else [])], options, "subwords", rare_forms(text))


def compare_cbow(size: int, peer: Peer | None, options: argparse.Namespace) -> None:
    if options.part == "cbow":
        ours = (CBOW, CBOW_DETERMINISTIC)
        runs: dict[str, Callable[[], float]] = {name: partial(our_rate, name, size, EPOCHS) for name in ours}
        for name in ours:
            runs[name]()  # compiles kernels
        if peer:
            runs[peer.name] = partial(gensim_rate, peer, size, EPOCHS, "cbow")
        compare("embed", f"size {size}, CBOW", "words/s", runs, {peer.name} if peer else set(), options)
    elif not options.small:
        compare_quality(size, [CBOW, *([peer] if peer else [])], options, "cbow")


def rare_forms(text: bytes) -> dict[bytes, bytes]:
    """Return inflected forms that occur fewer than five times, each with its base, in an order that is no alphabet."""
    counts = Counter(text.split())
    found = {
        base + suffix: base
        for base, count in counts.items()
        if count >= 1000
        for suffix in map(str.encode, SUFFIXES)
        if 0 < counts.get(base + suffix, 0) < 5
    }
    return dict(sorted(found.items(), key=lambda pair: zlib.crc32(pair[0]))[:FORMS])


def rare_words(forms: dict[bytes, bytes]) -> float:
    """Return the share of forms whose base is among their ten nearest neighbors."""
    asked = [NEGLM, "nearest", "--vectors", "trained.safetensors", "--json", "--top", "10"]
    answers = subprocess.run(asked, input=b"\n".join(forms) + b"\n", stdout=subprocess.PIPE, check=True).stdout
    found = [{each["word"] for each in json.loads(line)["neighbors"]} for line in answers.splitlines()]
    return statistics.mean(base.decode() in near for base, near in zip(forms.values(), found, strict=True))


def compare_quality(
    size: int,
    contestants: list[str | Peer],
    options: argparse.Namespace,
    mode: str = "",
    forms: dict[bytes, bytes] | None = None,
) -> None:
    """Train each contestant with each seed. mode: see `train`; forms: see `rare_forms`."""
    names = {contestant.name if isinstance(contestant, Peer) else contestant: contestant for contestant in contestants}
    names = {name: contestant for name, contestant in names.items() if options.only in name}
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for seed in options.seeds:
        for name, contestant in names.items():
            train(contestant, size, 5, seed, *([mode] if mode else []))
            found[name].append(quality(options.data) + ((100 * rare_words(forms),) if forms else ()))
            print(f"  {name}, size {size}, seed {seed}: " + ", ".join(f"{x:.2f}" for x in found[name][-1]), flush=True)
    print(f"size {size}: five epochs, mean of {len(options.seeds)} seeds (minimum, maximum)")
    print(f"  {'':<30}" + "".join(f"{name:>24}" for name in (*FIGURES, *(["rare words"] if forms else []))))
    for name, figures in found.items():
        columns = [f"{statistics.mean(c):.2f} ({min(c):.2f}, {max(c):.2f})" for c in zip(*figures, strict=True)]
        print(f"  {name:<30}" + "".join(f"{column:>24}" for column in columns))
    print(flush=True)


if __name__ == "__main__":
    main()
