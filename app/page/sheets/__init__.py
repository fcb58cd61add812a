"""The tables and curves that take the place of the drawing: ledger, cost, comparison."""
