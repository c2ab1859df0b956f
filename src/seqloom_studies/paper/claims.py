"""The Extractor paper's claims that rest on training, and what it leaves open, each with the rule that shows it.

    decided(read(Path("runs/paper-small/fig8.jsonl")))        {claim: {"training": verdict, "held_out": verdict}}

What the paper takes from others (learned positions are as good as sinusoidal ones, no warm-up before pre-norm) is left
out. Source: Chen, arXiv:2308.07661, abstract and sections 5 to 8; both versions of its text say these things alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final, get_args

from seqloom_studies.paper.compared import Loss
from seqloom_studies.paper.page_rows import Study
from seqloom_studies.paper.rules import MANY, ONE, at_best, below, close_to, ends, every, highest, lowest, share, slope
from seqloom_studies.paper.verdicts import Rule, Verdict, count_verdicts, judge_claims

SIX = (ONE, MANY, "she", "he", "we", "me")
SIMPLER = ("he", "we", "me")


@final
@dataclass(frozen=True)
class Claim:
    """The claim in our words; its section; the study and the rule that show it; no loss can show one without a rule."""

    text: str
    section: str
    study: str
    rule: Rule | None
    also: Callable[[Study], str] | None = None
    """what is added to the verdict on the training loss"""


HEADLINE = Claim("SHE does evidently better than 32-head self-attention.", "abstract; section 6, Figure 8; section 8",
                 "fig8", below(("she", MANY)))  # fmt: skip
CLAIMS = (
    HEADLINE,
    Claim("The same batch by batch.", "section 6, Figure 9", "fig9", below(("she", MANY)), share),
    Claim("HE does better than 32-head self-attention.", "sections 6, 7, 8; Figure 8", "fig8", below(("he", MANY))),
    Claim("WE is close to 32-head self-attention.", "section 6, Figure 8", "fig8", close_to(("we", MANY))),
    Claim("WE does better than 1-head self-attention.", "sections 7, 8; Figure 8", "fig8", below(("we", ONE))),
    Claim("ME is close to 1-head self-attention.", "sections 6, 7, 8; Figure 8", "fig8", close_to(("me", ONE))),
    Claim("HE, WE and ME do about as well as self-attention or better: ME as 1 head, the others as 32.",
          "abstract; section 6, Figure 8", "fig8", close_to(("he", MANY), ("we", MANY), ("me", ONE))),
    Claim("The linear map that HE has before its extraction makes it better than WE.", "section 5.3; Figure 8", "fig8",
          below(("he", "we"))),
    Claim("The types trade loss for price: SHE below HE below WE below ME.", "sections 5.2 to 5.4; Figure 8", "fig8",
          below(("she", "he"), ("he", "we"), ("we", "me"))),
    Claim("Of all numbers of heads, 1 does worst.", "section 6, Figure 7", "fig7", highest(ONE), ends),
    Claim("Of all numbers of heads, 32 do best.", "section 6, Figure 7", "fig7", lowest(MANY), ends),
    Claim("SHE does better than 32-head self-attention at every context.", "section 6, Figure 10", "fig10",
          below(("she", MANY))),
    Claim("The longer the context, the further SHE is below 32-head self-attention.", "section 6, Figure 10", "fig10",
          slope("SHE - 32 heads, by each doubling", ("she", 1), (MANY, -1))),
    Claim("SHE does better than 32-head self-attention at every depth.", "section 6, Figure 11", "fig11",
          below(("she", MANY))),
    Claim("Deeper models do better, with any of the six mixers.", "section 6, Figure 11", "fig11",
          every(*(slope(f"{mixer}, by each doubling", (series, 1)) for mixer, series in
                  zip(("1 head", "32 heads", "SHE", "HE", "WE", "ME"), SIX, strict=True)))),
    Claim("SHE leads because it pays more: attention of as many parameters is below it.",
          "section 7: “you get what you pay for”", "equal-params", below(("she", MANY), ("attention as she", "she"))),
    Claim("The output projection is not critical: leaving it out raises the loss less than leaving the adjustment out.",
          "section 5.1, Eq. 25", "controls",
          below(*((f"{mixer}, no output projection", f"{mixer}, no adjustment") for mixer in ("she", "he", "we")))),
    Claim("Generated texts get better as the training loss falls.", "section 6, Table 2", "table2", None),
)  # fmt: skip
"""claims of the paper"""
ANCHORS = {claim: f"claim-{number}" for number, claim in enumerate(CLAIMS, 1)}
"""what marks the row of a claim on the page of all, so that other pages can link it"""

EQUAL = {
    "equal-params": "parameters",
    "equal-mul": "multiplications",
    "equal-time": "time of a step",
}
OPEN = (
    *(
        Claim(f"{mixer.upper()} does better than 32-head self-attention of equal {quantity}.", "", study,
              below((mixer, f"attention as {mixer}")))
        for study, quantity in EQUAL.items()
        for mixer in ("she", *SIMPLER)
    ),
    *(
        Claim(f"The longer the context, the further {mixer.upper()} is below 32-head self-attention.", "", "fig10",
              slope(f"{mixer.upper()} - 32 heads, by each doubling", (mixer, 1), (MANY, -1)))
        for mixer in SIMPLER
    ),
    Claim("The more channels a tap mixes, the lower the loss: from WE over groups to SHE.", "", "groups",
          slope("loss, by each halving of the groups", ("", -1))),
    *(
        Claim(f"{mixer.upper()} does better than 32-head self-attention, each at the best of its learning rates.", "",
              "lr", at_best((mixer, MANY)))
        for mixer in ("she", *SIMPLER)
    ),
    *(
        Claim(f"{mixer.upper()} does better with its adjustment than without.", "", "controls",
              below((mixer, f"{mixer}, no adjustment")))
        for mixer in ("she", "he", "we")
    ),
    *(
        Claim(f"{called} does better with learned positions than without.", "", "controls",
              below((series, f"{series}, no positions")))
        for called, series in (("32-head self-attention", MANY), ("SHE", "she"), ("HE", "he"), ("WE", "we"),
                               ("ME", "me"))
    ),
)  # fmt: skip
"""questions that the paper does not ask"""


def decide_claims(study: Study) -> dict[Claim, dict[Loss, Verdict]]:
    """The verdicts on each claim about a study, the paper's own first; for each loss they are one family."""
    rules = {claim: claim.rule for claim in (*CLAIMS, *OPEN) if claim.study == study.figure.name and claim.rule}
    losses: dict[Loss, dict[Claim, Verdict]] = {loss: judge_claims(rules, study, loss) for loss in get_args(Loss)}
    return {claim: {loss: verdicts[claim] for loss, verdicts in losses.items()} for claim in rules}


def conclusions(study: Study) -> list[str]:
    """How many of the paper's claims about a study hold by its rows, and how many of those that it leaves open."""
    sentences = []
    verdicts_of = decide_claims(study)
    for claims, template in ((CLAIMS, "The paper makes {} about these models"), (OPEN, "The paper leaves {} open")):
        verdicts = [verdicts_of[claim] for claim in claims if claim in verdicts_of]
        if verdicts:
            subject = template.format(f"{len(verdicts)} claim{'s' * (len(verdicts) > 1)}")
            training, held_out = (count_verdicts([by_loss[loss] for by_loss in verdicts]) for loss in get_args(Loss))
            sentences.append(f"{subject}: on the training loss {training}; on held-out text {held_out}.")
    return sentences
