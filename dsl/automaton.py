"""The LR automaton over the grammar's tables: two stacks, and a look ahead that moves neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from rlspec.dsl.annotations import Any
from rlspec.dsl.dataclass import names_of
from rlspec.dsl.diagnostics import Diagnostic
from rlspec.dsl.reductions import REDUCTIONS
from rlspec.dsl.tables import END, Tables
from rlspec.dsl.tokens import Token
from rlspec.dsl.tree import Item

# An expression that nests more deeply than this is refused, so that whoever walks the tree may recurse.
MAX_DEPTH = 150
# The parser's stack, for signs before signs and conditionals inside of conditionals.
MAX_STACK = 400
# Signs that belong to the head before them, on the same line.
HEAD_SIGNS = frozenset({"COLON", "EXTENDS", "AT"})


class Automaton:
    """`states` is the stack of the tables' states, `values` what has been read, one shorter.

    `before` is the stack as it was when the last token came, before anything was reduced for it: LALR tables
    may reduce on a token that turns out not to fit, and what would have fitted must be told from the stack
    before.
    """

    def __init__(self, tables: Tables, start: str) -> None:
        self.tables = tables
        self.end = tables.ends[start]
        self.states: list[int] = [tables.starts[start]]
        self.values: list[Any] = []
        self.before: list[int] = self.states
        # Offsets at which a repair invented a value: the item around is not kept.
        self.invented: list[int] = []
        self.too_deep: list[Diagnostic] = []

    def take(self, token: Token) -> bool:
        """Reduce and shift; False if the token does not fit. At the end of a sound text, `values` is its one
        value."""
        kind, states = token.kind, self.states
        action = self.tables.actions[states[-1]].get(kind)
        if action is not None and action < 0:
            self.before = states.copy()
            action = self.reduce(kind, action)
        else:
            self.before = states
        if action is None:
            return kind == END and states[-1] == self.end
        states.append(action)
        self.values.append(token)
        return True

    def advance(self, tokens: Sequence[Token], index: int, pausing: Set[int]) -> tuple[int, bool]:
        """Take tokens from an index on, as `take` does, while there is nothing to look at; where that ends, and
        whether it ends with a token that does not fit. Else it is the last token, one that begins a line in a state of
        `pausing` or with a sign of a head, or one that the stack may be too high for."""
        states, values, actions = self.states, self.values, self.tables.actions
        last = len(tokens) - 1
        while index < last and len(states) < MAX_STACK:
            token = tokens[index]
            kind = token[0]
            if token[6] and (states[-1] in pausing or kind in HEAD_SIGNS):
                break
            action = actions[states[-1]].get(kind)
            if action is not None and action < 0:
                self.before = states.copy()
                action = self.reduce(kind, action)
            else:
                self.before = states
            if action is None:
                return index, True
            states.append(action)
            values.append(token)
            index += 1
        return index, False

    def reduce(self, kind: str, action: int | None) -> int | None:
        """Reduce for as long as this terminal asks for it; return the shift that follows, or None."""
        states, values, rules = self.states, self.values, self.tables.rules
        chains, made = self.tables.chains, REDUCTIONS
        while action is not None and action < 0:
            origin, length, name = rules[-1 - action]
            if name:
                if length == 1:
                    parts = [values.pop()]
                    states.pop()
                elif length:
                    parts = values[-length:]
                    del values[-length:], states[-length:]
                else:
                    parts = []
                if origin == "items" and length:
                    values.append(self._with_item(parts))
                else:
                    values.append(made[name](parts))
            else:
                states.pop()
            key = (states[-1], origin, kind)
            chain = chains.get(key)
            if chain is None:
                chain = chains[key] = self._chain(*key)
            states.append(chain[0])
            action = chain[1]
        return action

    def _chain(self, below: int, origin: str, kind: str) -> tuple[int, int | None]:
        """The state that a nonterminal leads to, and the action in it, past all the productions that pass an
        only child on (an operand goes through ten levels of precedence): they depend on nothing else, so they
        are kept."""
        actions, gotos, rules = self.tables.actions, self.tables.gotos, self.tables.rules
        state = gotos[below][origin]
        action = actions[state].get(kind)
        while action is not None and action < 0 and not rules[-1 - action][2]:
            state = gotos[below][rules[-1 - action][0]]
            action = actions[state].get(kind)
        return state, action

    def _with_item(self, parts: list[Any]) -> list[Item]:
        """Keep a finished item, unless a repair invented a part of it or it nests too deeply."""
        items, item = parts
        own = item.head.span if item.value is None else item.span
        if any(own.start <= offset <= own.stop for offset in self.invented):
            return items
        if own.stop - own.start > MAX_DEPTH and _is_deep(item):
            self.too_deep.append(Diagnostic("RLC0010", f"an expression nests more than {MAX_DEPTH} levels deep", own))
            return items
        items.append(item)
        return items

    # ---- looking ahead

    def fits(self, kinds: Iterable[str], states: Sequence[int] | None = None) -> list[int] | None:
        """The stack after these terminals, or None where one does not fit; the stacks are left alone."""
        actions, gotos, rules = self.tables.actions, self.tables.gotos, self.tables.rules
        stack = list(self.states if states is None else states)
        for kind in kinds:
            while True:
                action = actions[stack[-1]].get(kind)
                if action is None:
                    if kind == END and stack[-1] == self.end:
                        return stack
                    return None
                if action >= 0:
                    stack.append(action)
                    break
                origin, length, _ = rules[-1 - action]
                if length:
                    del stack[-length:]
                stack.append(gotos[stack[-1]][origin])
        return stack

    def accepted(self) -> set[str]:
        """The terminals that would have fitted where the last one did not: exact, where the entries of the
        table alone over-report."""
        return {kind for kind in self.tables.actions[self.before[-1]] if self.fits([kind], self.before)}

    # ---- falling back

    def in_block(self) -> bool:
        """Whether an item may be shifted now."""
        return "item" in self.tables.gotos[self.states[-1]]

    def finish_item(self) -> bool:
        """If the item that is being read could end here, end it. In a head a name is a label, so that must be
        told from a name that begins the next item."""
        probe = self.fits(["NAME"])
        if probe is None or self.tables.kernels[probe[-1]] != ["path: NAME ."]:
            return False
        self.reduce("NAME", self.tables.actions[self.states[-1]]["NAME"])
        return True

    def drop_item(self) -> list[Any]:
        """Pop back to the block around; return what was popped, outermost first. Afterwards `in_block()`
        holds, unless no block is open at all."""
        dropped: list[Any] = []
        if self.tables.kernels[self.states[-1]] == ["item: head LBRACE items RBRACE ."]:
            # Its block is closed, so the item is whole, and what is wrong comes after it.
            self.finish_item()
        while len(self.states) > 1 and not self.in_block():
            self.states.pop()
            dropped.append(self.values.pop())
        if not self.in_block() and "items" in self.tables.gotos[self.states[-1]]:
            self.push("items", [])
        return dropped[::-1]

    def push(self, nonterminal: str, value: Any) -> None:
        """As if the nonterminal had been read."""
        self.states.append(self.tables.gotos[self.states[-1]][nonterminal])
        self.values.append(value)


def _is_deep(item: Item) -> bool:
    """Whether an item's own expressions nest more deeply than MAX_DEPTH."""
    todo: list[tuple[Any, int]] = [(item.head, 0), (item.value, 0)]
    while todo:
        node, depth = todo.pop()
        if isinstance(node, tuple):
            todo += [(part, depth) for part in node]
        elif hasattr(node, "span"):
            if depth > MAX_DEPTH:
                return True
            todo += [(getattr(node, name), depth + 1) for name in names_of(node) if name != "span"]
    return False
