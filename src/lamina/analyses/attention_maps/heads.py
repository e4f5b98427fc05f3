"""Which head finds which dependency: every head as a classifier that nobody trained."""

from __future__ import annotations

from collections import Counter

from lamina.analyses.attention_maps.examples import examples_table
from lamina.analyses.attention_maps.halves import CHOOSING, SCORED, halve
from lamina.analyses.attention_maps.relation_tables import baselines_table, best_table, picks, relations_table
from lamina.analyses.attention_maps.relations import ALL, NO_PUNCTUATION, RelationMeter, relations_of
from lamina.analyses.attention_maps.roles import first_token
from lamina.analyses.attention_maps.watching import refuse_without_maps, watch
from lamina.analyses.attention_maps.words import From
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.results import Provenance, Result


def heads(
    encoder: Encoder,
    corpus: Corpus,
    *,
    rows: From = "mean",
    faithful: bool = False,
    samples: int = 500,
    seed: int = 0,
) -> Result:
    """How many dependencies each head finds, by relation and direction, beside the best fixed offset.

    A head's answer for a word is the other word with the largest weight in the word's row (`dependent`: the dependent
    attends to its head) or in its column (`head`: the head attends to its dependent); special tokens do not count. In
    a decoder no word attends to a later one, so only one of the two directions can find a given dependency; and where
    its tokenizer puts no special token first, the text's first word draws the attention that special tokens draw
    elsewhere, and hides what a row says (provenance says which it was).

    `best` picks head, direction and offset on one half of the documents and scores them on the other: the winner of
    hundreds of heads is lucky on the data that made it win, and nowhere else. Intervals (95 %) resample texts.

    Args:
        encoder: whose heads.
        corpus: a treebank (annotation `dep`).
        rows: how rows of split words become one: mean, or first as in the paper's released code.
        faithful: pick and score on the same texts, as the paper did.
        samples: bootstrap samples for the intervals.
        seed: of the halves and the bootstrap.

    Example:
        >>> encoder, corpus = lamina.load_encoder("minilm"), lamina.load_corpus("ewt", "dev")  # doctest: +SKIP
        >>> heads(encoder, corpus).tables["best"].head(1)["relation"].tolist()  # doctest: +SKIP
        ['punct']
    """
    refuse_without_maps(encoder)
    found = _relations(corpus)
    halves = halve(corpus, seed)
    if not faithful and not halves.choosing:
        raise CorpusError(
            f"{corpus.name}: one half of the texts chooses heads and the other is scored, and there is one text only; "
            "give more, or choose and score on the same one (faithful)"
        )
    meter = RelationMeter(encoder.blocks * encoder.heads, found, halves, samples=samples, seed=seed)
    skipped = watch(encoder, corpus, [meter], rows=rows, total=len(corpus))
    chosen, scored = (None, None) if faithful else (CHOOSING, SCORED)
    best = best_table(meter, picks(meter, chosen), scored, encoder.heads)
    everywhere = relations_table(meter, encoder.heads)
    skipped["dependencies lost where their text was cut"] = found[ALL] - _counted(meter)
    skipped["relations that only one half of the texts has, without a best head"] = len(found) - len(best)
    tables = {
        "relations": everywhere,
        "best": best,
        "baselines": baselines_table(meter),
        "examples": examples_table(encoder, corpus, best, rows),
    }
    parameters = {"rows": rows, "faithful": faithful, "samples": samples, "seed": seed}
    model = encoder.describe() | {"first_token": first_token(encoder)}
    provenance = Provenance(model, corpus.describe(), parameters, (seed,), dict(skipped))
    return Result("heads", tables, provenance)


def _relations(corpus: Corpus) -> Counter[str]:
    """The relations of the corpus, `all` first and then the most frequent first."""
    if "dep" not in corpus.annotations:
        has = ", ".join(corpus.annotations) or "none"
        raise CorpusError(
            f"{corpus.name} has no dependencies (annotation dep; it has: {has}); name a treebank, for example ewt"
        )
    found = relations_of(corpus)
    if not found:
        raise CorpusError(f"{corpus.name} ({corpus.split}) has no dependency: all its sentences have one word")
    together = {name: found[name] for name in (ALL, NO_PUNCTUATION) if name in found}
    return Counter(together | dict(found.most_common()))


def _counted(meter: RelationMeter) -> int:
    return int(meter.sums().counts[meter.relations.index(ALL)])
