// Scopes of a module: every name, where it is declared, and whether it is read or changed.
"use strict";

class Scope {
  constructor(parent) {
    this.parent = parent;
    this.bindings = new Map();
  }

  find(name) {
    return this.bindings.get(name) || (this.parent && this.parent.find(name));
  }
}

function namesIn(pattern) {
  if (!pattern) {
    return [];
  }
  switch (pattern.type) {
    case "Identifier":
      return [pattern];
    case "ObjectPattern":
      return pattern.properties.flatMap((property) => namesIn(property.value || property.argument));
    case "ArrayPattern":
      return pattern.elements.flatMap(namesIn);
    case "AssignmentPattern":
      return namesIn(pattern.left);
    case "RestElement":
      return namesIn(pattern.argument);
    default:
      return [];
  }
}

const isNode = (value) => value !== null && typeof value === "object" && typeof value.type === "string";

// Walks a module once. `report(node, message)` is called for names that are wrong; returns the module's own scope.
class NameCheck {
  constructor(globals, report) {
    this.globals = globals;
    this.report = report;
    this.scopes = [];
  }

  check(program) {
    const scope = this.open(null);
    this.declareStatements(program.body, scope);
    program.body.forEach((statement) => this.visit(statement, scope));
    this.scopes.forEach((one) => this.judge(one));
    return scope;
  }

  open(parent) {
    const scope = new Scope(parent);
    this.scopes.push(scope);
    return scope;
  }

  declare(identifier, kind, scope, more = {}) {
    const { name } = identifier;
    if (scope.bindings.has(name)) {
      this.report(identifier, `${name} is declared twice`);
    } else if ((scope.parent && scope.parent.find(name)) || this.globals.has(name)) {
      this.report(identifier, `${name} hides another ${name}`);
    }
    if (!/^(_|\$?[a-z][a-zA-Z0-9]*|[A-Z][A-Z0-9_]*|[A-Z][a-zA-Z0-9]*)$/.test(name)) {
      this.report(identifier, `${name} is not camelCase`);
    }
    scope.bindings.set(name, { identifier, kind, numReads: 0, numWrites: 0, isExported: false, ...more });
  }

  // What statements declare is known in all of their block.
  declareStatements(statements, scope) {
    for (const statement of statements) {
      const isExported = statement.type === "ExportNamedDeclaration";
      const declaration = isExported ? statement.declaration : statement;
      if (declaration && declaration.type === "VariableDeclaration") {
        for (const { id } of declaration.declarations) {
          namesIn(id).forEach((name) => this.declare(name, declaration.kind, scope, { isExported }));
        }
      } else if (declaration && /^(Function|Class)Declaration$/.test(declaration.type)) {
        this.declare(declaration.id, "function", scope, { isExported });
      } else if (statement.type === "ImportDeclaration") {
        statement.specifiers.forEach((specifier) => this.declare(specifier.local, "import", scope));
      }
    }
  }

  visit(node, scope) {
    const special = this[node.type];
    if (special) {
      special.call(this, node, scope);
    } else {
      this.visitChildren(node, scope);
    }
  }

  visitChildren(node, scope) {
    for (const value of Object.values(node)) {
      for (const child of Array.isArray(value) ? value : [value]) {
        if (isNode(child)) {
          this.visit(child, scope);
        }
      }
    }
  }

  ImportDeclaration() {}

  ExportNamedDeclaration(node, scope) {
    if (node.declaration) {
      this.visit(node.declaration, scope);
    }
  }

  Identifier(node, scope) {
    const binding = scope.find(node.name);
    if (binding) {
      binding.numReads += 1;
    } else if (!this.globals.has(node.name)) {
      this.report(node, `${node.name} is not defined`);
    }
  }

  MemberExpression(node, scope) {
    this.visit(node.object, scope);
    if (node.computed) {
      this.visit(node.property, scope);
    }
  }

  Property(node, scope) {
    if (node.computed) {
      this.visit(node.key, scope);
    }
    this.visit(node.value, scope);
  }

  MethodDefinition(node, scope) {
    this.Property(node, scope);
  }

  BlockStatement(node, scope) {
    const inner = this.open(scope);
    this.declareStatements(node.body, inner);
    node.body.forEach((statement) => this.visit(statement, inner));
  }

  FunctionDeclaration(node, scope) {
    const inner = this.open(scope);
    const names = node.params.flatMap(namesIn);
    names.forEach((name) => this.declare(name, "parameter", inner));
    node.params.forEach((parameter) => this.visitPattern(parameter, inner));
    if (node.body.type !== "BlockStatement") {
      this.visit(node.body, inner);
      return;
    }
    this.declareStatements(node.body.body, inner);
    node.body.body.forEach((statement) => this.visit(statement, inner));
  }

  FunctionExpression(node, scope) {
    this.FunctionDeclaration(node, scope);
  }

  ArrowFunctionExpression(node, scope) {
    this.FunctionDeclaration(node, scope);
  }

  ClassDeclaration(node, scope) {
    if (node.superClass) {
      this.visit(node.superClass, scope);
    }
    node.body.body.forEach((member) => this.visit(member, scope));
  }

  ForStatement(node, scope) {
    const inner = this.open(scope);
    const header = node.init || node.left;
    if (header) {
      this.declareStatements([header], inner);
    }
    this.visitChildren(node, inner);
  }

  ForOfStatement(node, scope) {
    this.ForStatement(node, scope);
  }

  CatchClause(node, scope) {
    const inner = this.open(scope);
    namesIn(node.param).forEach((name) => this.declare(name, "parameter", inner));
    this.visit(node.body, inner);
  }

  VariableDeclarator(node, scope) {
    this.visitPattern(node.id, scope);
    if (node.init) {
      this.visit(node.init, scope);
    }
  }

  // Of a pattern, only what is worked out: its defaults.
  visitPattern(pattern, scope) {
    if (pattern && pattern.type === "AssignmentPattern") {
      this.visit(pattern.right, scope);
      this.visitPattern(pattern.left, scope);
    } else if (pattern && pattern.type === "ObjectPattern") {
      pattern.properties.forEach((property) => this.visitPattern(property.value, scope));
    } else if (pattern && pattern.type === "ArrayPattern") {
      pattern.elements.forEach((element) => this.visitPattern(element, scope));
    }
  }

  AssignmentExpression(node, scope) {
    const names = namesIn(node.left);
    names.forEach((name) => this.write(name, scope));
    if (!names.length) {
      this.visit(node.left, scope);
    }
    this.visit(node.right, scope);
  }

  UpdateExpression(node, scope) {
    if (node.argument.type === "Identifier") {
      this.write(node.argument, scope);
    } else {
      this.visit(node.argument, scope);
    }
  }

  write(identifier, scope) {
    const { name } = identifier;
    const binding = scope.find(name);
    if (!binding) {
      this.report(identifier, `${name} is not defined`);
      return;
    }
    binding.numWrites += 1;
    if (!["let", "parameter"].includes(binding.kind)) {
      this.report(identifier, `${name} must not be assigned again`);
    }
  }

  judge(scope) {
    const bindings = [...scope.bindings.values()];
    const lastReadParameter = bindings.findLastIndex((one) => one.kind === "parameter" && one.numReads > 0);
    bindings.forEach((binding, index) => {
      const { name } = binding.identifier;
      const isSkipped = binding.kind === "parameter" && index < lastReadParameter;
      if (binding.numReads === 0 && !binding.isExported && !isSkipped) {
        this.report(binding.identifier, `${name} is not used`);
      }
      if (binding.kind === "let" && binding.numWrites === 0) {
        this.report(binding.identifier, `${name} never changes: use const`);
      }
    });
  }
}

module.exports = { NameCheck };
