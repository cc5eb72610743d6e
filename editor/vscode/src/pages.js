// Pages of the open spec: `rlc doc` and `rlc graph` write a file, the editor shows it.
"use strict";

const fs = require("fs");
const os = require("os");
const path = require("path");
const { execFile } = require("child_process");
const vscode = require("vscode");

/** The command `rlc`, as the setting that starts the server names it: what stands before `lsp`. */
function rlc() {
  const [command, ...args] = vscode.workspace.getConfiguration("rlspec").get("command", ["rlc", "lsp"]);
  const server = args.lastIndexOf("lsp");
  return [command, server < 0 ? args : args.slice(0, server)];
}

/** Run `rlc <words> FILE -o page`, and show the page beside the spec. */
function show(title, words, suffix) {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined || editor.document.languageId !== "rlspec" || editor.document.isUntitled) {
    vscode.window.showInformationMessage("rlspec: open a saved .rlspec file first.");
    return;
  }
  const file = editor.document.fileName;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "rlspec-"));
  const page = path.join(folder, `page${suffix}`);
  const [command, before] = rlc();
  execFile(command, [...before, ...words, file, "-o", page], { cwd: path.dirname(file) }, (error, _, stderr) => {
    try {
      if (error) {
        vscode.window.showErrorMessage(`rlspec: ${stderr.trim().split("\n")[0] || error.message}`);
        return;
      }
      const name = `${title}: ${path.basename(file)}`;
      const panel = vscode.window.createWebviewPanel("rlspec.page", name, vscode.ViewColumn.Beside, {
        enableScripts: false,
      });
      panel.webview.html = fs.readFileSync(page, "utf8");
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  });
}

const commands = {
  "rlspec.page": () => show("Spec", ["doc"], ".html"),
  "rlspec.graph": () => show("Graph", ["graph"], ".svg"),
};

module.exports = { commands };
