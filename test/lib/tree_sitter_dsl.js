// Prints the rules of a grammar.js as JSON: the part of tree-sitter that needs no parser generator.
const wrap = value => {
  if (typeof value === 'string') return { type: 'STRING', value };
  if (value instanceof RegExp) return { type: 'PATTERN', value: value.source };
  return value;
};
const precedence = type => (...args) => ({ type, content: wrap(args[args.length - 1]) });
globalThis.seq = (...members) => ({ type: 'SEQ', members: members.map(wrap) });
globalThis.choice = (...members) => ({ type: 'CHOICE', members: members.map(wrap) });
globalThis.optional = rule => ({ type: 'CHOICE', members: [wrap(rule), { type: 'BLANK' }] });
globalThis.repeat = rule => ({ type: 'REPEAT', content: wrap(rule) });
globalThis.field = (name, rule) => ({ type: 'FIELD', name, content: wrap(rule) });
globalThis.alias = (rule, name) => ({ type: 'ALIAS', content: wrap(rule) });
globalThis.token = rule => ({ type: 'TOKEN', content: wrap(rule) });
globalThis.prec = Object.assign(precedence('PREC'), { left: precedence('PREC'), right: precedence('PREC') });
globalThis.grammar = rules => rules;

const given = require(require('path').resolve(process.argv[2]));
const $ = new Proxy({}, { get: (_, name) => ({ type: 'SYMBOL', name }) });
const rules = Object.fromEntries(Object.entries(given.rules).map(([name, rule]) => [name, wrap(rule($))]));
process.stdout.write(JSON.stringify(rules));
