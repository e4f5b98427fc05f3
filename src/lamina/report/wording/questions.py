"""Words around question answering."""

from __future__ import annotations

from lamina.report.wording.section import Section

SECTIONS = {
    "finetune": Section(
        title="Learning to answer",
        question="How does the model learn, step by step, and how well does it answer what it has not seen?",
        method=(
            "A span head is put on the model and both are trained together; in the default report for a few minutes, "
            "on little stories that lamina makes itself (where is Ann? after the first of the bAbI tasks). The step "
            "that does best on a selection set is kept, and scored once on stories of its own; intervals resample them."
        ),
        captions={
            "learning": "The loss of the training batches, and the selection set's scores; the step kept is marked."
        },
    ),
    "diff": Section(
        title="What fine-tuning changed",
        question="At which layers and in which heads does the fine-tuned model differ from the one it came from?",
        method=(
            "On texts that neither model was tuned on, we take at each layer the debiased linear CKA of word vectors "
            "and the mean cosine of a word with itself, and for each head the mean cosine of its attention maps before "
            "and after. Beside them stand the random-weights twin, words of different texts, and the other heads of "
            "the layer."
        ),
        captions={
            "layers": (
                "1 means unchanged. CKA does not see a common rotation, the cosine does: high CKA with a low cosine is "
                "a layer that was turned, not rebuilt."
            ),
            "heads": (
                "Left, each head with itself before fine-tuning; right, with the other heads of its layer. A head no "
                "more like itself than like the others has changed its role."
            ),
            "probes": "F1 of probes that see one layer alone, for both models on the same texts.",
        },
    ),
    "token_map": Section(
        title="One question, layer by layer",
        question="What does each layer make of the tokens of a question and its context?",
        method=(
            "Every token's vector is brought into two dimensions, layer by layer, after van Aken et al. (2019); "
            "clusters are found in the full space. A token whose vector is ten times as long as the median is left out."
        ),
        captions={
            "map": (
                "Drag the slider from the embeddings to the last layer; colour by role, sentence or cluster. Two axes "
                "hold only the stated share of the variance: tokens close here may be far apart in the full space."
            ),
            "layers": (
                "All layers at once, each with its own fit. Look for the question near its supporting facts, and for "
                "the answer leaving all other tokens."
            ),
        },
    ),
    "phases": Section(
        title="The phases of answering",
        question=(
            "At which layers do question, support and answer find together or come apart, and do failures show early?"
        ),
        method=(
            "Mean cosines within and between groups of words, minus the layer's anisotropy; separation of the answer; "
            "agreement of k-means clusters with sentences, roles and entity types. Shuffled roles and the twin with "
            "random weights stand beside; intervals resample documents."
        ),
        captions={
            "roles": (
                "Only what lies apart from shuffled roles and from the random twin speaks of training. Above 0, words "
                "are more alike than words of different documents."
            ),
            "answers": (
                "Right answers, confidently wrong ones, and wrong ones of low confidence; groups of few questions have "
                "wide intervals."
            ),
            "failure": (
                "How well a wrong answer is foretold from one layer's vectors. It is an early sign only where it beats "
                "the random twin, output confidence and question length."
            ),
        },
    ),
}
