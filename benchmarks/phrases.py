"""Speed of `neglm phrases`, compared with gensim's `Phrases`, on the same file, in turn.

    python benchmarks/phrases.py [--data DIR] [--rounds N] [--small] [--json FILE]

Both do the same job: count words and pairs, score pairs by normalized PMI, and write the text with its phrases joined,
in one pass. Rates are of whole processes from start to exit. Each contestant runs once per round; ratios compare rates
of the same round, and the result is the median over rounds.
"""

from pathlib import Path

from side_by_side import NEGLM, THREADS, compare, find_peer, option_parser, output, seconds, text_of, workplace

THRESHOLD, MIN_COUNT = 0.5, 5
RULE = ["--measure", "npmi", "--threshold", str(THRESHOLD), "--min-count", str(MIN_COUNT), "--passes", "1"]
PHRASES = [NEGLM, "phrases", "corpus.txt", "--quiet", "--threads", THREADS, *RULE, "-o", "neglm.txt"]
GENSIM = f"""
from gensim.models.phrases import Phrases
from gensim.models.word2vec import LineSentence
sentences = LineSentence("corpus.txt")
phrases = Phrases(sentences, min_count={MIN_COUNT}, threshold={THRESHOLD}, scoring="npmi", delimiter="_").freeze()
with open("gensim.txt", "w", encoding="utf-8") as file:
    for sentence in sentences:
        file.write(" ".join(phrases[sentence]) + "\\n")
"""


def words(path: str) -> int:
    """Return the number of words and phrases, to check that both join the same."""
    with open(path, "rb") as file:
        return sum(len(line.split()) for line in file)


def main() -> None:
    options = option_parser(__doc__, rounds=3).parse_args()
    text = text_of(options, "wiki", "wiki100.txt")
    peer = find_peer("gensim", "gensim", options.peers)
    if peer is None:
        return
    with workplace():
        Path("corpus.txt").write_bytes(text)
        output(*PHRASES)  # compiles kernels and warms the page cache
        runs = {
            "neglm phrases": lambda: len(text) / seconds(*PHRASES) / 1e6,
            peer.name: lambda: len(text) / seconds(peer.python, "-c", GENSIM) / 1e6,
        }
        compare("phrases", f"{len(text) / 1e6:.0f} MB of text", "MB/s", runs, {peer.name}, options)
        print(f"words and phrases in the output: {words('neglm.txt'):,}, and {words('gensim.txt'):,} by gensim")
        print("(gensim's LineSentence breaks lines after 10,000 words, and misses pairs there)")


if __name__ == "__main__":
    main()
