// Checks modules of JavaScript: node --expose-internals lint.cjs < {"entry": "main.js", "modules": {path: text}}
// It parses them with the acorn that Node brings along, and writes a list of [path, line, message].
"use strict";

const { readFileSync } = require("node:fs");
const { posix } = require("node:path");
const acorn = require("internal/deps/acorn/acorn/dist/acorn");
const { NameCheck } = require("./names.cjs");
const { checkLines, checkNodes } = require("./style.cjs");

// What the page uses of a browser; a name that is not here is a mistake until it is added.
const BROWSER = [
  "addEventListener",
  "atob",
  "devicePixelRatio",
  "document",
  "getComputedStyle",
  "innerHeight",
  "localStorage",
  "location",
  "matchMedia",
  "requestAnimationFrame",
  "ResizeObserver",
];
const LANGUAGE = [
  "Array",
  "Float64Array",
  "Infinity",
  "JSON",
  "Map",
  "Math",
  "Number",
  "Object",
  "Set",
  "String",
  "Uint8Array",
  "isFinite",
  "undefined",
];
const GLOBALS = new Set([...BROWSER, ...LANGUAGE]);
const problems = [];

function parse(path, text) {
  const report = (line, message) => problems.push([path, line, message]);
  const options = {
    ecmaVersion: 2022,
    sourceType: "module",
    locations: true,
    onInsertedSemicolon: (_, at) => report(at.line, "a semicolon is missing"),
  };
  try {
    return acorn.parse(text, options);
  } catch (error) {
    report(error.loc ? error.loc.line : 1, error.message);
    return null;
  }
}

function checkModule(path, text) {
  const program = parse(path, text);
  checkLines(text, (line, message) => problems.push([path, line, message]));
  if (!program) {
    return null;
  }
  const report = (node, message) => problems.push([path, node.loc.start.line, message]);
  checkNodes(program, { lines: text.split("\n"), report });
  const scope = new NameCheck(GLOBALS, report).check(program);
  const imports = [];
  for (const node of program.body) {
    if (node.type === "ImportDeclaration") {
      const target = posix.normalize(posix.join(posix.dirname(path), node.source.value));
      imports.push({ node, target, names: node.specifiers.map((one) => one.imported && one.imported.name) });
    }
    if (node.type === "VariableDeclaration" && node.kind !== "const") {
      report(node, "a module shares no variable of its own: what changes is in state.js");
    }
    if (node.type.startsWith("Export") && !node.declaration) {
      report(node, "export a thing where it is declared");
    }
  }
  const exported = [...scope.bindings.values()].filter((one) => one.isExported);
  return { path, report, imports, exported: new Map(exported.map((one) => [one.identifier.name, one.identifier])) };
}

function checkImports(modules) {
  const used = new Set();
  for (const { path, report, imports } of modules.values()) {
    for (const { node, target, names } of imports) {
      if (!modules.has(target)) {
        report(node, `there is no module ${target}`);
        continue;
      }
      for (const name of names) {
        used.add(`${target} ${name}`);
        if (!modules.get(target).exported.has(name)) {
          report(node, `${target} does not export ${name}`);
        }
      }
    }
    const sources = imports.map(({ node }) => node.source.value);
    if (new Set(sources).size < sources.length) {
      problems.push([path, 1, "a module is imported twice"]);
    }
  }
  for (const { path, report, exported } of modules.values()) {
    for (const [name, identifier] of exported) {
      if (!used.has(`${path} ${name}`)) {
        report(identifier, `${name} is exported, and no module imports it`);
      }
    }
  }
}

// Every module is reached from the entry, and none imports itself by way of others.
function checkOrder(modules, entry) {
  const done = new Set();
  const visit = (path, importers) => {
    const module = modules.get(path);
    if (!module || done.has(path)) {
      return;
    }
    if (importers.includes(path)) {
      problems.push([path, 1, `modules import each other: ${[...importers, path].join(" -> ")}`]);
      return;
    }
    module.imports.forEach(({ target }) => visit(target, [...importers, path]));
    done.add(path);
  };
  visit(entry, []);
  for (const path of modules.keys()) {
    if (!done.has(path)) {
      problems.push([path, 1, "no module imports it"]);
    }
  }
}

const { entry, modules: texts } = JSON.parse(readFileSync(0, "utf-8"));
const modules = new Map();
for (const [path, text] of Object.entries(texts)) {
  const module = checkModule(path, text);
  if (module) {
    modules.set(path, module);
  }
}
checkImports(modules);
checkOrder(modules, entry);
problems.sort((one, other) => (one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : one[1] - other[1]));
process.stdout.write(JSON.stringify(problems));
