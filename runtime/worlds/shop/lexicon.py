"""The closed vocabulary of the shop: every name, place, thing and number that tasks are made of.

Each entry is one word, so that a word-level tokenizer needs one token for it, and no word belongs to two kinds, so that
a listener can tell what was meant from the word alone.
"""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


NAMES = _words("""
  anna bert carla david emma frank greta hugo ines jonas karla lars mona nils olga paul
  rosa sven tina ulli vera walt yara zoe
""")
CITIES = _words("""
  oslo rome paris berlin lima cairo dublin madrid vienna prague lyon milan tokyo quito delhi porto
""")
ITEMS = _words("""
  mug lamp chair desk shirt scarf bag watch clock vase kettle pillow towel jacket hat rug
""")
COLOURS = _words("""
  red blue green black white yellow pink grey brown orange
""")
METHODS = _words("""
  visa paypal amex giro klarna
""")
CARDS = [f"g{number}" for number in range(10, 26)]
ORDERS = [f"W{number}" for number in range(10, 70)]
USERS = [f"u{number}" for number in range(10, 50)]

POOLS: dict[str, list[str]] = {
    "name": NAMES,
    "city": CITIES,
    "item": ITEMS,
    "colour": COLOURS,
    "payment": METHODS,
    "card": CARDS,
    "order": ORDERS,
    "user": USERS,
}
KIND_OF: dict[str, tuple[str, str]] = {word.lower(): (kind, word) for kind, pool in POOLS.items() for word in pool}
"""Lower-cased word -> its kind and its spelling."""

PRICES: dict[str, int] = {item: 10 + 5 * place for place, item in enumerate(ITEMS)}
VARIANTS: dict[str, list[str]] = {
    item: [colour for tint, colour in enumerate(COLOURS) if (place + tint) % 3] for place, item in enumerate(ITEMS)
}
"""The colours in which each item is made: six or seven of the ten."""
