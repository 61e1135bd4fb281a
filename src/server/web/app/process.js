// virtual-core asks bundlers, by this name of Node's, whether it is being developed.
globalThis.process ??= { env: { NODE_ENV: "production" } };
