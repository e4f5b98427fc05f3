"""Words around edge probing."""

from __future__ import annotations

from lamina.report.wording.section import Section

_TRACES = (
    "Each sentence with some of its targets in brackets; below, from the embeddings to the last layer, the probability "
    "of a label under the probe that sees layers 0 to l. Two rival labels that sum to more than 1 are divided by their "
    "sum; the table has the probabilities as they are."
)

SECTIONS = {
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
            "by_layer": "F1 of each layer alone, both models on one axis.",
            "heatmap": (
                "Each task from its worst layer (white) to its best (dark); the shade says where, the number how well."
            ),
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
