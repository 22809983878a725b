// Starts `mucc lsp`, and connects it with the editor.
const { commands, window, workspace } = require('vscode');
const { LanguageClient, TransportKind } = require('vscode-languageclient/node');

let client;

async function start() {
  const settings = workspace.getConfiguration('mucc');
  const [command, ...first] = settings.get('command');
  const target = settings.get('target');
  const args = target ? [...first, '--target', target] : first;
  const server = { command, args, transport: TransportKind.stdio };
  client = new LanguageClient('mucc', 'mucc', server, { documentSelector: [{ language: 'mcu' }] });
  try {
    await client.start();
  } catch (error) {
    window.showErrorMessage(`mucc: '${command}' did not start (${error.message}): pip install 'mucc[lsp]'`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running && running.isRunning()) {
    await running.stop();
  }
}

async function restart() {
  await stop();
  await start();
}

exports.activate = async context => {
  context.subscriptions.push(
    commands.registerCommand('mucc.restart', restart),
    workspace.onDidChangeConfiguration(change => change.affectsConfiguration('mucc') && restart()),
  );
  await start();
};

exports.deactivate = stop;
