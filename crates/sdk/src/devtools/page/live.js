// What a running session reports beside its journal.

Object.assign(Session.prototype, {
  now() {
    return this.isRunning ? Date.now() : this.last ?? Date.now();
  },
});
