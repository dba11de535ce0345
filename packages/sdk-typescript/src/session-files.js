// The files that the program reads at its start. They contain the token of the tools.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// A private directory, which exists until the program has read what is in it.
export class SessionFiles {
  #directory;

  // Writes JSON for this user only, and returns the path.
  write(name, content) {
    this.#directory ??= mkdtempSync(join(tmpdir(), "parallax-sdk-"));
    const path = join(this.#directory, name);
    writeFileSync(path, JSON.stringify(content), { mode: 0o600, flag: "wx" });
    return path;
  }

  remove() {
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true });
    this.#directory = undefined;
  }
}
