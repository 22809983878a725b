// Prints the scopes that the TextMate grammar gives to each piece of the files that are named, as JSON.
const fs = require('fs');
const path = require('path');
const oniguruma = require('vscode-oniguruma');
const { Registry, INITIAL, parseRawGrammar } = require('vscode-textmate');

async function main(files) {
  await oniguruma.loadWASM(fs.readFileSync(require.resolve('vscode-oniguruma/release/onig.wasm')).buffer);
  const place = path.join(__dirname, '..', 'syntaxes', 'mcu.tmLanguage.json');
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: patterns => new oniguruma.OnigScanner(patterns),
      createOnigString: text => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(place, 'utf8'), place),
  });
  const grammar = await registry.loadGrammar('source.mcu');
  const found = {};
  for (const file of files) {
    let state = INITIAL;
    found[file] = fs.readFileSync(file, 'utf8').split('\n').map(line => {
      const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
      state = ruleStack;
      return tokens.map(t => [t.startIndex, t.endIndex, t.scopes[t.scopes.length - 1]]);
    });
  }
  process.stdout.write(JSON.stringify(found));
}

main(process.argv.slice(2));
