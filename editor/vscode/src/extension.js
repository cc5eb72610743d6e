// The client: starts `rlc lsp` and hands the editor's questions on to it. All knowledge is in the server.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");
const { commands } = require("./pages");

let client;

/** Start the server that the settings name. */
async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("rlspec").get("command", ["rlc", "lsp"]);
  const server = { command, args, transport: TransportKind.stdio };
  const options = { documentSelector: [{ language: "rlspec" }] };
  client = new LanguageClient("rlspec", "rlspec", server, options);
  try {
    await client.start();
  } catch (error) {
    const cure = "Install it with `pip install 'rlspec[editor]'`, or say where it is in the setting rlspec.command.";
    vscode.window.showErrorMessage(`rlspec: \`${command}\` does not start. ${cure} (${error.message})`);
  }
}

async function stop() {
  if (client !== undefined) {
    await client.stop();
    client = undefined;
  }
}

async function activate(context) {
  const restart = vscode.commands.registerCommand("rlspec.restart", async () => {
    await stop();
    await start();
  });
  const shown = Object.entries(commands).map(([name, run]) => vscode.commands.registerCommand(name, run));
  context.subscriptions.push(restart, ...shown);
  await start();
}

module.exports = { activate, deactivate: stop };
