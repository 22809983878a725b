/**
 * The grammar of `.mcu` programs, rule by rule as `mucc docs --grammar` prints it. A test runs it over every
 * example, and compares its keywords with those of the compiler.
 */

const list = (separator, rule) => seq(rule, repeat(seq(separator, rule)), optional(separator));

module.exports = grammar({
  name: 'mcu',

  extras: $ => [/[\s\ufeff]/, $.comment],
  word: $ => $.identifier,

  rules: {
    source_file: $ => repeat(choice($.kernel, $.function, $.schedule)),

    kernel: $ => seq(
      'kernel', optional('each'), field('name', $.identifier),
      optional(seq('[', list(',', $.dim), ']')),
      '(', optional(list(',', $.parameter)), ')',
      '->', field('results', choice($.type, $.results)),
      optional($.promises),
      field('body', $.block),
    ),
    function: $ => seq(
      'fn', field('name', $.identifier), '(', optional(list(',', $.identifier)), ')', field('body', $.block),
    ),
    dim: $ => seq(field('name', $.identifier), optional(seq('=', $.number))),
    parameter: $ => seq(field('name', $.identifier), ':', $.type),
    results: $ => seq('(', list(',', $.parameter), ')'),
    type: $ => prec.right(seq(
      field('dtype', $.identifier),
      optional(seq('[', optional(list(',', $._expression)), ']')),
      optional($.layout),
    )),
    layout: $ => choice(
      'row_major', 'col_major', 'sparse',
      seq('strides', '(', list(',', choice($.number, $.identifier)), ')'),
    ),
    promises: $ => seq('where', list(',', $.comparison)),

    block: $ => seq('{', repeat($.statement), $.return, '}'),
    statement: $ => seq(
      optional('stage'), field('name', $.identifier), optional(seq(':', $.type)), '=', field('value', $._expression),
    ),
    return: $ => seq('return', $._expression, repeat(seq(',', $._expression))),

    schedule: $ => seq(
      'schedule', field('kernel', $.identifier), optional(seq('.', field('stage', $.identifier))),
      'for', field('target', $.identifier), '{', repeat($.setting), '}',
    ),
    setting: $ => seq(field('name', $.identifier), '=', $._value),
    _value: $ => choice($.shape, $.number, $.word),
    word: $ => prec.right(seq(field('name', $.identifier), optional(seq('(', optional(list(',', $.value_argument)), ')')))),
    value_argument: $ => seq(optional(seq(field('name', $.identifier), '=')), $._value),

    _expression: $ => choice(
      $.binary, $.comparison, $.unary, $.transpose, $.index, $.call, $.parenthesized, $.number, $.identifier,
    ),
    parenthesized: $ => seq('(', $._expression, ')'),
    binary: $ => choice(
      prec.left(1, seq($._expression, 'or', $._expression)),
      prec.left(2, seq($._expression, 'and', $._expression)),
      prec.left(5, seq($._expression, choice('+', '-'), $._expression)),
      prec.left(6, seq($._expression, choice('*', '/', '%', '@'), $._expression)),
    ),
    comparison: $ => prec.left(4, seq($._expression, choice('<', '<=', '>', '>=', '==', '!='), $._expression)),
    unary: $ => choice(prec(3, seq('not', $._expression)), prec(7, seq('-', $._expression))),
    transpose: $ => prec(8, seq($._expression, '.', 'T')),
    index: $ => prec(8, seq($._expression, '[', list(',', choice($.none, '...', $.slice, $._expression)), ']')),
    none: $ => 'None',
    slice: $ => prec.right(seq(
      optional($._expression), ':', optional($._expression), optional(seq(':', optional($._expression))),
    )),
    call: $ => prec(9, seq(
      field('function', choice($.identifier, alias('where', $.identifier))),
      '(', optional(list(',', $.argument)), ')',
    )),
    argument: $ => seq(optional(seq(field('name', $.identifier), '=')), choice($._expression, $.list)),
    list: $ => seq('(', $._expression, ',', optional(list(',', $._expression)), ')'),

    identifier: $ => /[A-Za-z_][A-Za-z0-9_]*/,
    shape: $ => token(prec(1, /[0-9]+(x[0-9]+)+/)),
    number: $ => /[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?/,
    comment: $ => token(seq('//', /[^\n]*/)),
  },
});
