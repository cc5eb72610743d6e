; Colours, by the capture names that Neovim and Helix have in common. Later patterns win in Neovim, earlier ones in Helix
; up to 25.01; the patterns below do not need either, except the first for names.

(comment) @comment
(text) @string
(number) @number
(boolean) @boolean

["if" "then" "else"] @keyword.conditional
["and" "or" "not" "in"] @keyword.operator
(not_in) @keyword.operator
["over" "align" "where" "extends" "on"] @keyword
["+" "-" "*" "/" "^" "==" "!=" "<" "<=" ">" ">=" "="] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":" "." "@"] @punctuation.delimiter

; What an item declares: `reward R`, `stage train`; a field has no label.
(head kind: (path (name) @keyword) label: (name))
(head kind: (path (name) @keyword) label: (text))
(head kind: (path . (name) @keyword (#any-of? @keyword "experiment" "claims" "rlspec" "title" "note" "cites" "seed" "credit")) !label)
(head label: (name) @variable.definition)
(head kind: (path . (name) @keyword . (name)) !label)
(item head: (head kind: (path (name) @property) !label !type) (#not-any-of? @property "experiment" "claims" "rlspec" "title" "note" "cites" "seed" "credit" "patch" "given"))
(head on: (name) @variable)

(type base: (reference (name) @type))
(type level: (name) @attribute)
(axes (name) @attribute)
(type base: (set (name) @constant))
(parameter name: (name) @variable.parameter)

(call function: (name) @function.call)
(call function: (member name: (name) @function.call))
(call function: (name) @function.builtin
  (#any-of? @function.builtin
    "sum" "mean" "min" "max" "any" "all" "count" "first" "last" "zscore" "center" "rank" "suffix_sum" "prefix_sum"
    "gae" "num" "index" "clip" "abs" "sign" "exp" "log" "sqrt" "indicator" "by" "anneal" "top"))
(call function: (name) @attribute (#any-of? @attribute "reported" "assumed" "chosen"))
(argument name: (name) @variable.parameter)
(member name: (name) @property)
