"""Words around the geometry of layers."""

from __future__ import annotations

from lamina.report.wording.section import Section

SECTIONS = {
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
}
