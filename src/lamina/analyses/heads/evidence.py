"""What is known about one head, in one sentence and three rows: what it finds, where it looks, what it matters for."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import pandas as pd

from lamina.analyses.heads.atlas import NATS, OFTEN, SHARE, TITLES, HeadCard
from lamina.analyses.heads.behaviours import BROADLY, COREFERENCE, INDUCTION, SHARES, SYNTACTIC
from lamina.results.finding import number, rows_of
from lamina.stats.status import Status, status_of

_NAN = float("nan")
_UNITS = dict.fromkeys(TITLES.values(), SHARE) | {TITLES["entropy"]: NATS, TITLES["entropy_first"]: NATS}


class HeadEvidence(NamedTuple):
    """One row: a number, its interval, and what it is compared with."""

    kind: Literal["finds", "looks", "matters"]
    title: str
    """What was measured; empty where nothing was."""
    unit: str = ""
    value: float = _NAN
    low: float = _NAN
    high: float = _NAN
    beside: float = _NAN
    """What it is compared with ..."""
    rule: str = ""
    """... and what gives that."""
    note: str = ""
    """How much it was measured on, or its rank; where nothing was measured, why."""
    status: Status | Literal["missing"] = "missing"
    needs: tuple[str, ...] = ()
    """Analyses that would tell, where nothing was measured."""


def evidence(card: HeadCard) -> list[HeadEvidence]:
    """The strongest evidence of each kind; a row without a number where its analysis was not run.

    Example:
        >>> import lamina
        >>> from lamina.analyses.heads.atlas import card
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> result = lamina.attention(TinyEncoder(), lamina.corpus_from(SAMPLE_TEXTS, name="samples"), samples=10)
        >>> [(row.kind, row.status) for row in evidence(card(2, 1, {"attention": result}))]
        [('finds', 'missing'), ('looks', 'open'), ('matters', 'missing')]
    """
    return [_finds(card), _looks(card), _matters(card)]


def in_a_sentence(card: HeadCard) -> str:
    """What the head does, as far as it was measured.

    Example:
        >>> from lamina.analyses.heads.atlas import card
        >>> in_a_sentence(card(1, 1, {}))
        'Nothing was measured of it on a corpus yet.'
    """
    row = next(rows_of(card.behaviours), None)
    finds, looks = _finds(card), _looks(card)
    if card.role in (SYNTACTIC, COREFERENCE) and finds.status != "missing":
        return f"{_capital(finds.title)}: {_against(finds)}."
    copied = next(rows_of(card.behaviours[card.behaviours["behaviour"] == INDUCTION]), None)
    if card.role == INDUCTION and copied is not None:
        more = number(copied.difference, copied.diff_low, copied.diff_high)
        return (
            f"At a repeated token it looks to the token after the earlier copy: {number(copied.value)} of its "
            f"attention on random tokens, {more} more than without a copy."
        )
    if card.role in SHARES and looks.status != "missing":
        return f"Looks {looks.title}: {_against(looks)}."
    if card.role == BROADLY and row is not None:
        return f"Spreads its attention over many words: entropy {number(row.value)} nats, over {number(row.over)}."
    if looks.status != "missing":
        start = "Has no role, since nothing it does passes a threshold; it looks" if card.role else "Looks"
        return f"{start} mostly {looks.title}: {_against(looks)}."
    if finds.status != "missing":
        return f"{_capital(finds.title)}: {_against(finds)}."
    if row is not None:
        return f"Its role is {card.role}: {number(row.value)}, which had to be over {number(row.over)}."
    return "Nothing was measured of it on a corpus yet."


def _against(row: HeadEvidence) -> str:
    unit = {SHARE: "of its attention", NATS: "nats"}.get(row.unit, row.unit)
    return f"{number(row.value, row.low, row.high)} {unit}; {row.rule} {number(row.beside)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _finds(card: HeadCard) -> HeadEvidence:
    """The relation with the largest lead, or the antecedents of a coreference head."""
    mention = next(rows_of(card.coreference.sort_values("accuracy", ascending=False)), None)
    known = next(rows_of(card.behaviours[card.behaviours["behaviour"] == COREFERENCE]), None)
    if mention is not None and (known is not None or card.relations.empty):
        beside, rule = (known.over, "best simple rule") if known is not None else (_NAN, "no rule was scored")
        return HeadEvidence(
            "finds", f"finds the antecedent of {mention.mention_type} mentions", "accuracy", mention.accuracy,
            mention.low, mention.high, beside, rule, f"{mention.count:,} mentions",
            # Only heads that are clearly ahead of every rule have the behaviour.
            "open" if known is None else "clear",
        )  # fmt: skip
    # Relations that earn a name first; of the rest, the one with the largest lead.
    often = card.relations[(card.relations["count"] >= OFTEN) | card.relations["ahead"].astype(bool)]
    ordered = often.assign(sure=often["ahead"].astype(bool))
    row: Any = next(rows_of(ordered.sort_values("sure", ascending=False, kind="stable")), None)
    if row is None:
        return HeadEvidence("finds", "", note="dependencies were not looked for", needs=("heads",))
    way = "from a word to its head" if row.direction == "dependent" else "from a word to its dependent"
    scope = "also where other documents chose the head" if row.held_out else "on the split it was chosen on"
    # The paired and corrected test says so.
    status = "clear" if row.ahead else "open"
    return HeadEvidence(
        "finds", f"looks {way} by {row.relation}", "accuracy", row.accuracy, row.low, row.high, row.offset_accuracy,
        f"the best fixed offset ({row.offset:+d})", f"{row.count:,} words, {scope}", status,
    )  # fmt: skip


def _looks(card: HeadCard) -> HeadEvidence:
    """The measure that gave the head its role, else the one farthest above uniform attention."""
    named = SHARES.get(card.role, ("entropy" if card.role == BROADLY else "", 0))[0]
    shares = card.pattern[card.pattern["title"].isin([title for title in _UNITS if _UNITS[title] == SHARE])]
    named_rows = card.pattern[card.pattern["title"] == TITLES.get(named, "")]
    lead = (shares["value"] - shares["baseline"]).sort_values(ascending=False, kind="stable")
    row: Any = next(rows_of(named_rows if len(named_rows) else pd.DataFrame(shares.loc[lead.index])), None)
    if row is None:
        return HeadEvidence("looks", "", note="its pattern was not measured", needs=("attention",))
    return HeadEvidence(
        "looks", row.title, _UNITS.get(row.title, SHARE), row.value, row.low, row.high, row.baseline,
        "uniform attention", f"rank {row.rank:.0f} of {row.of:.0f} heads",
        status_of(row.diff_low, row.diff_high, row.p_adjusted, needed=row.needed),
    )  # fmt: skip


def _matters(card: HeadCard) -> HeadEvidence:
    """What breaks without it: what surely does first, then the largest effect."""
    if card.matters.empty:
        return HeadEvidence("matters", "", note="it was not switched off yet", needs=("roles", "ablate"))
    table = card.matters.assign(sure=card.matters["matters"].astype(bool), size=card.matters["effect"].abs())
    row: Any = next(rows_of(table.sort_values(["sure", "size"], ascending=False, kind="stable")))
    of_role = isinstance(row.role, str) and row.role != ""
    unit = NATS if row.target == "loss" else "score"
    beside, rule = (row.others, "other heads of its layer") if of_role else (0.0, "no change")
    status = "clear" if row.matters else "open"
    return HeadEvidence(
        "matters", f"{row.target} without it, minus with it", unit, row.effect, row.low, row.high, beside, rule,
        f"asked of its role {row.role}" if of_role else "asked of any head", status,
    )  # fmt: skip
