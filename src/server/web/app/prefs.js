// What a person has set, kept in this browser.
import { effect, signal } from "@preact/signals";

const kept = (name, fallback) => {
  const value = signal(localStorage.getItem(`aynig.${name}`) ?? fallback);
  effect(() => localStorage.setItem(`aynig.${name}`, value.value));
  return value;
};

/** `auto`, `light` or `dark` */
export const theme = kept("theme", "auto");
/** Whether single keys answer requests: `on` or `off`. */
export const keys = kept("keys", "on");
/** Whether the browser notifies of requests: `on` or `off`. */
export const notices = kept("notices", "off");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
