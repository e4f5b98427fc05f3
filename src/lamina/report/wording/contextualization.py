"""Words around contextualization."""

from __future__ import annotations

from lamina.report.wording.section import Section

SECTIONS = {
    "contextualize": Section(
        title="Words in context",
        question="How well does each layer tell what a word means in its context?",
        method=(
            "One small probe a semantic class is trained on the vectors of some words and scored on others, so that "
            "no word is in two splits (Zhao et al. 2020); a class is found where at least half of a word's contexts "
            "say so. Beside the layers stand vectors without context, bags of vectors, random vectors and permuted "
            "classes; intervals resample words."
        ),
        captions={
            "layers": (
                "Micro-F1 over words and classes: left one vector a word, right one vector a context. A layer "
                "interprets context as far as it lies above the same layer's average over contexts."
            ),
            "context": "F1 when the model sees only so many words each side; 0 is the word alone.",
            "contexts": "How many word-class pairs have how many contexts; most have one.",
            "finetuning": (
                "(a) the old probes on the fine-tuned model's vectors, (b) new probes: where (a) falls and (b) holds, "
                "the classes are still there, told in another way."
            ),
            "attention": "How much each head's attention is as before fine-tuning; other heads of the layer beside it.",
        },
    ),
    "neighbours": Section(
        title="Neighbours and senses",
        question="What does each layer take a word for, in each of its contexts?",
        method=(
            "A word is the mean of its pieces; its nearest words by cosine, all from this corpus, are listed without "
            "context (static vectors, the model's input embeddings) and at each layer in each context, and its "
            "contexts are drawn by the first two principal components of each layer. Where no word was named, it is "
            "the one whose semantic classes (two or more, at least 5 contexts each) lie farthest apart at the last "
            "layer: chosen among many, it shows what is possible, not what is usual."
        ),
        captions={
            "neighbours": (
                "One table a context, the nearest word on top, layers from left to right. Grey words are near without "
                "any context too; blue ones come with the context."
            ),
            "senses": (
                "Each point is one context, its colour and shape the class. Axes mean nothing across layers: read what "
                "lies near what. The silhouette is taken in the whole space over classes with at least 5 contexts (1: "
                "far apart, 0: mixed); the table has what shuffled classes reach."
            ),
        },
    ),
}
