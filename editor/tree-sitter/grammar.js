// The grammar of rlspec, edition 1, as ../../dsl/grammar.lark has it: the same layers, the same language. What is a word
// of the grammar and which word is a name, and that a head does not go on on the next line, is decided in src/scanner.c.

const listed = (one) => optional(seq(one, repeat(seq(",", one)), optional(",")));

// A type within a head begins and goes on on the head's line; within parentheses it may stand anywhere.
const type = ($, at) =>
  seq(
    field("base", choice($.reference, $.set)),
    optional(seq(at, field("level", $.name))),
    optional(seq($._in, field("range", choice($.list, $.set)))),
  );

const binary = ($, left, operator, right) =>
  seq(field("left", left), field("operator", operator), field("right", right));

module.exports = grammar({
  name: "rlspec",

  externals: ($) => [
    $.name,
    $._label,
    $._text_label,
    $._colon,
    $._at,
    $._on,
    $._align,
    $._and,
    $._else,
    $._extends,
    $._false,
    $._if,
    $._in,
    $._not,
    $._or,
    $._over,
    $._then,
    $._true,
    $._where,
    $._mended, // valid only while an error is being mended
  ],

  extras: ($) => [/[ \t\r\n\f]/, $.comment],

  rules: {
    source_file: ($) => repeat($.item),

    item: ($) =>
      seq(field("head", $.head), choice(seq("=", field("value", $._expression)), field("body", $.block))),

    block: ($) => seq("{", repeat($.item), "}"),

    // ------------------------------------------------------------------------------------------------------- heads

    head: ($) =>
      seq(
        field("kind", $.path),
        repeat(field("label", choice(alias($._label, $.name), $._quoted_label))),
        optional(field("parameters", $.parameters)),
        optional(seq(alias($._colon, ":"), field("type", alias($._head_type, $.type)))),
        optional(seq(alias($._extends, "extends"), field("extends", choice($.reference, $.text)))),
        optional(seq(alias($._on, "on"), field("on", $.name))),
      ),

    path: ($) => seq($.name, repeat(seq(".", $.name))),

    _quoted_label: ($) => seq($._text_label, $.text),

    parameters: ($) => seq("(", listed($.parameter), ")"),

    parameter: ($) =>
      seq(
        field("name", $.name),
        ":",
        field("type", alias($._loose_type, $.type)),
        optional(seq("=", field("default", $._expression))),
      ),

    _head_type: ($) => type($, alias($._at, "@")),
    _loose_type: ($) => type($, "@"),

    reference: ($) => seq($.name, repeat(seq(".", $.name))),

    // ------------------------------------------------------------------------------------------------- expressions

    _expression: ($) => choice($.conditional, $._disjunction),

    conditional: ($) =>
      seq(
        alias($._if, "if"),
        field("condition", $._expression),
        alias($._then, "then"),
        field("yes", $._expression),
        alias($._else, "else"),
        field("no", $._expression),
      ),

    _disjunction: ($) => choice($._conjunction, alias($._or_expression, $.binary)),
    _or_expression: ($) => binary($, $._disjunction, alias($._or, "or"), $._conjunction),

    _conjunction: ($) => choice($._negation, alias($._and_expression, $.binary)),
    _and_expression: ($) => binary($, $._conjunction, alias($._and, "and"), $._negation),

    _negation: ($) => choice($._comparison, alias($._not_expression, $.unary)),
    _not_expression: ($) => seq(field("operator", alias($._not, "not")), field("operand", $._negation)),

    _comparison: ($) => choice($._sum, alias($._compare_expression, $.binary)),
    _compare_expression: ($) =>
      choice(
        binary($, $._sum, choice("==", "!=", "<=", ">=", "<", ">", alias($._in, "in")), $._sum),
        binary($, $._sum, alias($._not_in, $.not_in), $._sum),
      ),
    _not_in: ($) => seq(alias($._not, "not"), alias($._in, "in")),

    _sum: ($) => choice($._product, alias($._sum_expression, $.binary)),
    _sum_expression: ($) => binary($, $._sum, choice("+", "-"), $._product),

    _product: ($) => choice($._signed, alias($._product_expression, $.binary)),
    _product_expression: ($) => binary($, $._product, choice("*", "/"), $._signed),

    _signed: ($) => choice($._power, alias($._minus_expression, $.unary)),
    _minus_expression: ($) => seq(field("operator", "-"), field("operand", $._signed)),

    _power: ($) => choice($._postfix, alias($._power_expression, $.binary)),
    _power_expression: ($) => binary($, $._postfix, "^", $._signed),

    _postfix: ($) => choice($._atom, $.member, $.index, $.call),
    member: ($) => seq(field("target", $._postfix), ".", field("name", $.name)),
    index: ($) => seq(field("target", $._postfix), "[", field("key", $._expression), "]"),
    call: ($) => seq(field("function", $._postfix), "(", listed($.argument), ")"),

    _atom: ($) => choice($.number, $.text, $.boolean, $.name, $.parenthesis, $.list, $.set),

    boolean: ($) => choice(alias($._true, "true"), alias($._false, "false")),
    parenthesis: ($) => seq("(", $._expression, ")"),
    list: ($) => seq("[", listed($._expression), "]"),
    set: ($) => seq("{", listed($._expression), "}"),

    argument: ($) =>
      choice(
        field("value", $._expression),
        seq(
          field("name", choice($.name, alias($._where, $.name), alias($._over, $.name))),
          "=",
          field("value", $._expression),
        ),
        seq(
          field("value", $._expression),
          alias($._over, "over"),
          field("over", $.axes),
          optional(seq(alias($._align, "align"), field("align", $.name))),
          optional(seq(alias($._where, "where"), field("where", $._expression))),
        ),
      ),

    axes: ($) => choice($.name, seq("(", $.name, repeat(seq(",", $.name)), optional(","), ")")),

    // ------------------------------------------------------------------------------------------------------ tokens

    number: (_) =>
      /[0-9]+(_[0-9]+)*(\.[0-9]+(_[0-9]+)*)?([eE][+-]?[0-9]+)?(%|[A-Za-z_][A-Za-z0-9_]*)?/,
    text: (_) => /"([^"\\\n]|\\[^\n])*"/,
    comment: (_) => /#[^\n]*/,
  },
});
