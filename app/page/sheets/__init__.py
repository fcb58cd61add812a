"""The views that replace the diagram on the stage: ledger, cost, comparison."""
