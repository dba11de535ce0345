#!/usr/bin/env node
// Starts the program of the package for this platform. Nothing is downloaded, and nothing runs at installation.
"use strict";

const { spawn } = require("child_process");
const { constants } = require("os");
const path = require("path");

const packageName = `@parallax/cli-${process.platform}-${process.arch}`;
const fileName = process.platform === "win32" ? "parallax.exe" : "parallax";

function findProgram() {
  try {
    return path.join(path.dirname(require.resolve(`${packageName}/package.json`)), "bin", fileName);
  } catch {
    const supported = Object.keys(require("../package.json").optionalDependencies);
    const hint = supported.includes(packageName)
      ? "Reinstall without --omit=optional or --no-optional, and on the system that runs it."
      : `Supported are: ${supported.join(", ").replace(/@parallax\/cli-/g, "")}.`;
    console.error(`parallax: the package ${packageName} is not installed. ${hint}`);
    process.exit(1);
  }
}

const program = findProgram();
const parameters = process.argv.slice(2);
// The name of the link that was called: help and errors use it.
const name = path.basename(process.argv[1] || "parallax", ".js");

// Newer versions of Node.js can replace their own process, which saves its memory.
if (typeof process.execve === "function" && process.platform !== "win32") {
  // Announces only that the function is experimental.
  process.removeAllListeners("warning");
  try {
    process.execve(program, [name, ...parameters], process.env);
  } catch {
    // Refused, for example by the permissions of Node.js: run it as a child.
  }
}

const child = spawn(program, parameters, { argv0: name, stdio: "inherit" });

// Ctrl+C in a terminal reaches the child by itself; a second signal would end it at once.
const hasTerminal = [0, 1, 2].some((number) => require("tty").isatty(number));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  try {
    process.on(signal, () => {
      if (signal !== "SIGINT" || !hasTerminal) child.kill(signal);
    });
  } catch {
    // Not a signal of this system.
  }
}

child.on("error", (error) => {
  console.error(`parallax: failed to start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal === null ? code : 128 + (constants.signals[signal] || 0));
});
