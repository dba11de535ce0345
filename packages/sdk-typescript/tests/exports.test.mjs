// The declared exports are the real ones.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as sdk from "../src/index.js";

test("index.d.ts declares what index.js exports", () => {
  const text = readFileSync(new URL("../src/index.d.ts", import.meta.url), "utf8");
  const declared = [...text.matchAll(/^export (?:class|function) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(declared.sort(), Object.keys(sdk).sort());
});
