"""The questions lamina asks: one module per question, each with a function that declares itself.

A module is imported when its analysis is needed; `lamina.framework.registry` finds it by its name.
"""

ANALYSES = (
    "lamina.analyses.layers.geometry:geometry",
    "lamina.analyses.layers.dimensions:dimensions",
    "lamina.analyses.layers.probe.probe:probe",
    "lamina.analyses.layers.choose.choose:choose",
    "lamina.analyses.layers.trace.trace:trace",
    "lamina.analyses.layers.order:order",
    "lamina.analyses.layers.structure.structure:structure",
    "lamina.comparison.compare:compare",
    "lamina.analyses.heads.attention:attention",
    "lamina.analyses.heads.attention_distance:attention_distance",
    "lamina.analyses.heads.heads:heads",
    "lamina.analyses.heads.headmap:headmap",
    "lamina.analyses.heads.corefheads:corefheads",
    "lamina.analyses.heads.parse:parse",
    "lamina.analyses.heads.look:look",
    "lamina.analyses.words.contextualize.contextualize:contextualize",
    "lamina.analyses.words.neighbours:neighbours",
    "lamina.analyses.words.senses.senses:senses",
    "lamina.analyses.words.windows:windows",
    "lamina.analyses.behaviour.surprisal:surprisal",
    "lamina.analyses.behaviour.pairs.pairs:pairs",
    "lamina.analyses.behaviour.cloze.cloze:cloze",
    "lamina.analyses.behaviour.perturb.perturb:perturb",
    "lamina.analyses.behaviour.lens.lens:lens",
    "lamina.analyses.behaviour.probe_vs_lens.probe_vs_lens:probe_vs_lens",
    "lamina.analyses.cause.ablate:ablate",
    "lamina.analyses.cause.prune.prune:prune",
    "lamina.analyses.cause.erase.erase:erase",
    "lamina.analyses.cause.restore.restore:restore",
    "lamina.analyses.cause.patch.patch:patch",
    "lamina.analyses.cause.roles.roles:roles",
    "lamina.analyses.answering.finetune:finetune",
    "lamina.analyses.answering.token_map:token_map",
    "lamina.analyses.answering.phases:phases",
    "lamina.comparison.diff:diff",
)
"""Every analysis, in the order of the report."""
