"""Results: scores, their intervals, and pages with tables and figures."""
