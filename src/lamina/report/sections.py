"""What the report says of each question: its title, what it asks, how it is answered, how its charts are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Section(NamedTuple):
    """The words around one analysis."""

    title: str
    question: str
    method: str
    """Two sentences."""
    captions: Mapping[str, str]
    """Chart -> how to read it."""


_TRACES = (
    "Each sentence with some of its targets in brackets; below, from the embeddings to the last layer, the probability "
    "of a label under the probe that sees layers 0 to l. Two rival labels that sum to more than 1 are divided by their "
    "sum; the table has the probabilities as they are."
)

_SECTIONS = {
    "geometry": Section(
        title="Geometry of the layers",
        question="How are a layer's word vectors spread, and how much of a vector comes from the word's context?",
        method=(
            "A word is the mean of its pieces, special tokens left out; at each layer we take the mean cosine of "
            "words from different texts (anisotropy), of the occurrences of one lower-cased word type "
            "(self-similarity) and of words with their text's mean (intra-sentence similarity), and how much of a "
            "word type's occurrences one static vector could explain (maximum explainable variance), after "
            "Ethayarajh (2019). Adjusted measures subtract the layer's anisotropy, 95 % intervals are "
            "bootstrapped over texts or word types, and the twin with random weights shows what the architecture "
            "does before any training."
        ),
        captions={
            "layers": (
                "Each panel shows one measure from the embeddings (layer 0) to the last layer, all on the same scale; "
                "where no shading shows, the interval is narrower than the line. A gap between the model and its "
                "random twin is what training put there. Low self-similarity means that a word's vector depends much "
                "on its context; compare the adjusted panels, because in an anisotropic layer all vectors look alike."
            )
        },
    ),
    "probe": Section(
        title="Edge probing",
        question="At which layers can the answer to each linguistic question be read off the vectors?",
        method=(
            "A probe, a small network that sees the vectors of the marked words and nothing else, learns each task's "
            "labels on training texts, is stopped on training documents kept apart, and is scored here by F1; P(l) "
            "mixes layers 0 to l with learned weights, after Tenney, Das and Pavlick (2019). Beside each score stand "
            "the best constant answer, a twin of the model with random weights, and control labels drawn at random for "
            "each word, which a probe can only learn by heart."
        ),
        captions={
            "pipeline": (
                "Tasks by expected layer, the earliest on top. P(0) sees the embeddings alone, P(L) all layers. The "
                "expected layer says where the score is gained as layers are added, the centre of gravity which layers "
                "the full probe draws on; they need not agree. n/a: the gain over P(0) cannot be told from 0, or "
                "the probes for it were not run."
            ),
            "weights": (
                "Solid: the weights with which the full probe mixes the layers; they sum to 1. Outlined: what layer l "
                "adds to the score of P(l-1), as a share of the whole gain over P(0); below 0 where it takes away. "
                "Weights depend on how long a layer's vectors are, so those lengths stand beside them."
            ),
            "curves": (
                "Left, probes that see one layer; right, probes that mix all layers up to it. The score speaks of the "
                "model only as far as it lies above the random-weights twin and the constant answer; a probe that also "
                "does well on control labels learns by heart. Where no shading shows, the interval is narrower than "
                "the line."
            ),
            "order": (
                "How likely the task of the row comes before the task of the column, over resampled seeds and "
                "sentences: near 1 or 0 the order is clear, near 0.5 it is open. Few seeds make the centre of gravity "
                "look surer than it is."
            ),
            "traces": (
                f"{_TRACES} Sentences are those with more than one target about which the probes are in doubt: the "
                "mean probability of the best label over layers is at most 0.7."
            ),
        },
    ),
    "attention": Section(
        title="What heads look at",
        question="Where does the attention of every head go, and how broadly is it spread?",
        method=(
            "For every head, the share of attention that goes to the token itself, its neighbours, the first token, "
            "separators and punctuation, and the entropy of its rows, as means over a text's tokens and then over "
            "texts, after Clark et al. (2019); beside each stands its value under uniform attention. Maps are sorted "
            "into the five types of Kovaleva et al. (2019) by a rule: a part counts where it holds at least 0.4 of "
            "what uniform attention would not give it."
        ),
        captions={
            "atlas": (
                "A grid a measure, a cell a head; the number is the mean over texts, to be read against uniform "
                "attention in the subtitle. A dark cell is a head with one job."
            ),
            "layers": (
                "A point a head; the line is the mean of a layer's heads, dotted lines are uniform attention. "
                "Attention far above uniform to a token that says little (first token, separator, full stop) is often "
                "a no-op."
            ),
            "entropy": (
                "How broadly heads look, in nats: 0 is a single token, the dotted line all tokens alike. For decoders "
                "the first token sees only itself, so its entropy is 0."
            ),
            "patterns": (
                "Mean over heads of the share of texts on which a head's map is of each type; block needs texts of "
                "two segments."
            ),
            "gradients": (
                "How much the model's own loss would change with attention to each kind of token, on a logarithmic "
                "scale. Much attention with little gradient is a no-op."
            ),
        },
    ),
    "heads": Section(
        title="Heads that find dependencies",
        question="Which head, left to itself, points from a word to its syntactic head?",
        method=(
            "A head's answer for a word is the other word with the largest weight in its row or its column, special "
            "tokens left out (Clark et al. 2019). Head, direction and fixed offset are chosen on one half of the "
            "documents and scored on the other; intervals resample texts."
        ),
        captions={
            "relations": (
                "Each relation's best head (dot, 95 % interval) beside the best fixed offset (square); a head says "
                "something where its interval lies right of the square."
            ),
            "examples": (
                "Lines go from the attending word to the attended; the annotated link has its own colour. Sentences "
                "are the first that fit, not the best."
            ),
        },
    ),
    "corefheads": Section(
        title="Heads that find antecedents",
        question="Which head points from a mention to one it corefers with?",
        method=(
            "For each mention with an antecedent in its window: is the word its head word attends most to the head "
            "word of an antecedent? The best head is chosen on one half of the documents; it and three rule baselines "
            "are scored on the other, intervals resample documents."
        ),
        captions={
            "systems": "All four systems are scored on the same mentions.",
            "heads": "Every head on all documents; darker finds more.",
        },
    ),
    "parse": Section(
        title="Parsers out of attention",
        question="How much of a sentence's dependency tree is in the attention maps?",
        method=(
            "Probes learn to weigh the maps of all heads, in both directions, to find each word's head (Clark et al. "
            "2019): one weight a map, or weights that depend on the two words' static vectors. Scored without "
            "punctuation on texts they have not learned from, beside the next word as head, word vectors with "
            "distances, and trees straight from maps."
        ),
        captions={
            "systems": (
                "UAS: share of words whose head is found; UUAS: share of links found, whichever way they point. Hold "
                "attention+words against distance+words, which sees no attention."
            ),
            "weights_attention_only": (
                "Blue heads speak for a candidate, orange ones against it; layers and heads count from 1."
            ),
            "weights_attention_words": "The same, as means over scored words and their true heads.",
        },
    ),
    "headmap": Section(
        title="Map of heads",
        question="Which heads attend alike, and what do they do?",
        method=(
            "Jensen-Shannon divergence of every two heads' attention (0.001 smoothing, nats a token), placed on a "
            "plane by metric multidimensional scaling. Behaviours go by the thresholds of Clark et al. (2019); "
            "syntactic heads are picked on one half and scored on the other."
        ),
        captions={
            "map": (
                "Each point is a head. Near heads attend alike, as far as the stress allows; directions mean nothing. "
                "Left by layer, right by behaviour; a head that does several things is called by the most telling."
            ),
        },
    ),
    "look": Section(
        title="Attention on one sentence",
        question="Where do chosen heads look in this sentence?",
        method=(
            "Lines go from the attending word (left) to the attended (right), wider and darker with more attention. "
            "Between words, attention to a split word is the sum over its pieces and attention from it their mean."
        ),
        captions={"lines": "A panel a head, named layer-head; lines below the least weight shown are left out."},
    ),
    "compare": Section(
        title="Two models side by side",
        question="What does one model know better than the other, and where in its depth does it know it?",
        method=(
            "Scores and places of two probing results are set side by side, layers as shares of each model's own "
            "depth. The interval of a difference is made of the two results' own intervals (Zou and Donner 2008), as "
            "if they were independent; scores are subtracted only where both were made on the same texts."
        ),
        captions={
            "places": (
                "How far into its depth each model resolves each task, by the layers that its full probe draws on and "
                "by where the score is gained. The table has the differences."
            ),
            "depth": "F1 of each model from its embeddings (0) to its last layer (1).",
        },
    ),
    "trace": Section(
        title="From layer to layer",
        question="What does each layer make of the words of one sentence?",
        method=(
            "Probes trained on a corpus are applied to the sentence; P(l) mixes layers 0 to l. A probe answers which "
            "label, given this span: it has never seen a span that is no target, so spans are marked by hand for all "
            "tasks but part of speech."
        ),
        captions={"traces": _TRACES},
    ),
}


def section_of(analysis: str) -> Section:
    """The words for an analysis; its bare name where nobody has written any.

    Example:
        >>> section_of("geometry").title
        'Geometry of the layers'
        >>> section_of("head_roles").title
        'Head roles'
    """
    plain = Section(analysis.replace("_", " ").capitalize(), question="", method="", captions={})
    return _SECTIONS.get(analysis, plain)
