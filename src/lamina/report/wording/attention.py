"""Words around attention."""

from __future__ import annotations

from lamina.report.wording.section import Section

SECTIONS = {
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
}
