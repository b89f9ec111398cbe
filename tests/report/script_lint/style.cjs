// How a module is written: one statement a line, braces, indentation, short lines and functions.
"use strict";

const MOST_COLUMNS = 120;
const MOST_LINES = 350;
const MOST_FUNCTION_LINES = 60;
const INDENTATION = 2;
// what turns text into markup or into code
const UNSAFE = new Set(["innerHTML", "outerHTML", "insertAdjacentHTML", "write", "writeln", "srcdoc", "setHTMLUnsafe"]);
const FUNCTIONS = ["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"];

function checkLines(text, report) {
  const lines = text.split("\n");
  lines.forEach((line, index) => {
    if (line.length > MOST_COLUMNS) {
      report(index + 1, `the line has ${line.length} characters, at most ${MOST_COLUMNS} fit`);
    }
    if (/\s$/.test(line) || line.includes("\t")) {
      report(index + 1, "spaces at the end of the line, or a tab");
    }
  });
  if (!text.startsWith("// ")) {
    report(1, "a module begins with a comment that says what it is for");
  }
  if (!text.endsWith("\n") || text.endsWith("\n\n")) {
    report(lines.length, "a module ends with one line end");
  }
  if (lines.length - 1 > MOST_LINES) {
    report(MOST_LINES, `the module has ${lines.length - 1} lines, at most ${MOST_LINES} fit`);
  }
}

const indentationOf = (line) => line.length - line.trimStart().length;

// The members of a block stand on lines of their own, one step further in than the line on which the block opens.
function checkBlock(block, members, lines, report) {
  const inside = block.type === "Program" ? 0 : indentationOf(lines[block.loc.start.line - 1]) + INDENTATION;
  for (const member of members) {
    const { line, column } = member.loc.start;
    if (lines[line - 1].slice(0, column).trim()) {
      report(member, "a statement begins on a line of its own");
    } else if (column !== inside) {
      report(member, `indented by ${column}, not by ${inside}`);
    }
  }
  if (block.type !== "Program" && members.length) {
    const { line, column } = block.loc.end;
    const opens = lines[block.loc.start.line - 1];
    if (lines[line - 1].slice(0, column - 1).trim() || column - 1 !== indentationOf(opens)) {
      report(block, "the closing brace stands below the line on which the block opens");
    }
  }
}

const CHECKS = {
  Program: (node, { lines, report }) => checkBlock(node, node.body, lines, report),
  BlockStatement: (node, { lines, report }) => checkBlock(node, node.body, lines, report),
  ClassBody: (node, { lines, report }) => checkBlock(node, node.body, lines, report),
  IfStatement(node, { report }) {
    const other = node.alternate;
    const isBraced = !other || other.type === "BlockStatement" || other.type === "IfStatement";
    if (node.consequent.type !== "BlockStatement" || !isBraced) {
      report(node, "if and else need braces");
    }
  },
  VariableDeclaration(node, { report }) {
    if (node.kind === "var") {
      report(node, "var: use const or let");
    }
    if (node.declarations.length > 1) {
      report(node, "one declaration for each name");
    }
  },
  BinaryExpression(node, { report }) {
    if (node.operator === "==" || node.operator === "!=") {
      report(node, `${node.operator} converts types: use ${node.operator}=`);
    }
  },
  Literal(node, { report }) {
    if (typeof node.value === "string" && !node.raw.startsWith('"') && !node.value.includes('"')) {
      report(node, "texts stand in double quotes");
    }
  },
  MemberExpression(node, { report }) {
    if (!node.computed && UNSAFE.has(node.property.name)) {
      report(node, `${node.property.name} makes markup of text: use textContent`);
    }
  },
  SequenceExpression: (node, { report }) => report(node, "a comma joins two statements"),
  EmptyStatement: (node, { report }) => report(node, "an empty statement"),
  ForInStatement: (node, { report }) => report(node, "for in also takes inherited names: use Object.entries"),
  DebuggerStatement: (node, { report }) => report(node, "debugger"),
};
for (const type of ["ForStatement", "ForOfStatement", "WhileStatement"]) {
  CHECKS[type] = (node, { report }) => node.body.type === "BlockStatement" || report(node, "a loop needs braces");
}
for (const type of FUNCTIONS) {
  CHECKS[type] = (node, { report }) => {
    const numLines = node.loc.end.line - node.loc.start.line + 1;
    if (numLines > MOST_FUNCTION_LINES) {
      report(node, `the function has ${numLines} lines, at most ${MOST_FUNCTION_LINES} fit`);
    }
  };
}

function checkNodes(node, context) {
  if (CHECKS[node.type]) {
    CHECKS[node.type](node, context);
  }
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (child !== null && typeof child === "object" && typeof child.type === "string") {
        checkNodes(child, context);
      }
    }
  }
}

module.exports = { checkLines, checkNodes };
