"""The register of diagnostic codes: one line each, by area."""

from __future__ import annotations

CODES: dict[str, str] = {
    # 00 syntax
    "RLC0001": "the file is not text (UTF-8)",
    "RLC0002": "the file is empty",
    "RLC0003": "a character that no token begins with",
    "RLC0004": "a text is not closed on its line",
    "RLC0005": "a word or sign where something else was expected",
    "RLC0006": "a block is not closed",
    "RLC0007": "a closing brace that closes nothing",
    "RLC0008": "a head runs over the end of its line",
    "RLC0009": "the edition line `rlspec = 1` is missing or unknown",
    "RLC0010": "the file is larger than a spec may be, or nests too deeply",
    "RLC0011": "an unknown escape in a text",
    "RLC0012": "a number that is too large to be kept exactly",
    "RLC0013": "a bracket that does not match",
    # 01 names
    "RLC0101": "unknown name",
    "RLC0102": "unknown kind of declaration",
    "RLC0103": "unknown component",
    "RLC0104": "unknown field",
    "RLC0105": "declared twice",
    "RLC0106": "names refer to each other in a circle",
    "RLC0107": "unknown function",
    "RLC0108": "the declaration needs a label",
    "RLC0109": "unknown member",
    "RLC0110": "the file has no experiment, or more than one",
    "RLC0111": "a patch or removal of a path that does not exist",
    "RLC0112": "unknown parameter on the command line",
    # 02 types
    "RLC0201": "a value of another type was expected",
    "RLC0202": "a value is outside of the allowed choices",
    "RLC0203": "a field has no default and is missing",
    "RLC0204": "unknown type",
    "RLC0205": "arguments do not fit the function",
    "RLC0206": "an expression where a static value is needed",
    "RLC0207": "an item needs `=` or a block, and has the other",
    # 03 levels and units
    "RLC0301": "a value varies more finely than it is declared: a reducer is missing",
    "RLC0302": "an unknown level or axis",
    "RLC0303": "a reduction over an axis that the value does not vary over",
    "RLC0304": "a normalisation over a ragged axis must say pooled or aligned",
    "RLC0305": "units do not agree",
    "RLC0306": "`over` is missing",
    "RLC0307": "credit cannot spread an advantage of this level",
    # 04 ranges
    "RLC0401": "a number is outside of the allowed range",
    "RLC0402": "a value can leave its declared range",
    "RLC0403": "a clip that can never bind",
    "RLC0404": "a term or reward that is constant",
    # 05 stages and budgets
    "RLC0501": "a group of one has no baseline",
    "RLC0502": "a required declaration is missing",
    "RLC0503": "a declaration is never used",
    "RLC0504": "stages do not fit together",
    "RLC0505": "the parts cannot work together",
    # 06 components
    "RLC0601": "a component can be checked and compiled here, but not run",
    # 07 runs and files
    "RLC0701": "a file cannot be read",
    "RLC0702": "a file or directory cannot be written",
    "RLC0703": "the run directory belongs to another plan",
    "RLC0704": "another process is using the run directory",
    "RLC0705": "there is no run, checkpoint or trajectory where one was expected",
    "RLC0706": "a run's file is damaged",
    "RLC0707": "the plan cannot be read",
    "RLC0708": "the run failed",
    "RLC0709": "the cold start failed its own criterion",
    "RLC0710": "the machine lacks what the plan asks for",
    # 08 claims
    "RLC0801": "a claim does not add up",
}
