// Questions that are answered before anything else: confirmations, and the token.

import { element, fill, focusOn, mark } from "./lib/dom.js";

let opened = 0;

/** A token, or null if none is given. */
export function askForToken(why) {
  const input = element("input", {
    id: "token-value",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const body = [
    element("p", {}, why),
    element("label", { for: "token-value" }, "Token"),
    input,
    element("p", { class: "hint" }, "It is kept until this tab is closed, and sent to this node only."),
  ];
  return ask("Token", body, "Use it", async () => input.value.trim());
}

/**
 * Ask in a dialog, whose body is some elements. `confirm` is called when the button is pressed: what
 * it returns is the answer, and if it throws, the dialog says so and stays. The answer is null if
 * the dialog is closed. With `dangerous`, the button looks it.
 */
export function ask(title, body, button, confirm, { dangerous = false } = {}) {
  return new Promise((resolve) => {
    let answer = null;
    opened += 1; // one dialog may open another, as when an action takes a token
    const id = `dialog-title-${opened}`;
    const before = document.activeElement;
    const problem = element("p", { class: "problem", role: "alert", hidden: true });
    const yes = element("button", { type: "submit", class: dangerous ? "danger" : "primary" }, button);
    const no = element("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel");
    const form = element(
      "form",
      { method: "dialog" },
      element("h2", { id }, title),
      ...body,
      problem,
      element("div", { class: "buttons" }, no, yes),
    );
    const dialog = element("dialog", { "aria-labelledby": id }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      mark(yes, "disabled", true);
      try {
        answer = await confirm();
        dialog.close();
      } catch (caught) {
        fill(problem, caught.message);
        mark(problem, "hidden", false);
      }
      mark(yes, "disabled", false);
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      focusOn(before); // its row may have gone while this was open
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("input, select") ?? no).focus();
  });
}
