"""A plugin of the tests: a judge that needs a key, and a rubric, a kind that only this plugin has."""
