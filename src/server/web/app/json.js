// JSON with whole numbers of any length. Pure.

/** @type {any} */
const { rawJSON } = /** @type {any} */ (JSON);

/** Of a whole number that JavaScript would round, what was written; `stringify` writes that again. */
function exact(_name, value, context) {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "");
  return isRounded ? rawJSON(context.source) : value;
}

/** Like `JSON.parse`, and a person sees each number as the agent wrote it. Older browsers round. */
export const parse = (text) => (rawJSON && /\d{16}/.test(text) ? JSON.parse(text, exact) : JSON.parse(text));
