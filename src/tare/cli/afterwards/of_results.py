"""Define the commands that read results: `tare explain`, `tare compare`, `tare history`, `tare claims`."""

from __future__ import annotations

from tare.cli.afterwards.options import ClaimsOptions, CompareOptions, ExplainOptions, HistoryOptions


def explain(asked: ExplainOptions) -> int:
    """Say why cells cost what they cost, and what helps.

    Each cause has what speaks for it, its share of the cost, and the remedy.
    """
    from tare.cli.afterwards.explain_command import explain_results

    return explain_results(asked)


def compare(asked: CompareOptions) -> int:
    """Compare results of two or more sites, days or versions."""
    from tare.cli.afterwards.across_commands import show_compare

    return show_compare(asked)


def claims(asked: ClaimsOptions) -> int:
    """Hold the claims of publications against results.

    A claim is reproduced, contradicted, undecided, or untestable here. With --html, a page shows each claim with
    its interval over the range that is claimed.
    """
    from tare.cli.afterwards.claims_command import show_claims

    return show_claims(asked)


def history(asked: HistoryOptions) -> int:
    """Show cells over many results, and when their level changed."""
    from tare.cli.afterwards.across_commands import show_history

    return show_history(asked)
