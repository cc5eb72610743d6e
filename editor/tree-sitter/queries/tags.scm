(item head: (head kind: (path) label: (name) @name)) @definition
