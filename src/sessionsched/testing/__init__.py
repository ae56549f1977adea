"""The testing kit: what checks sessionsched, and can check other schedulers."""
