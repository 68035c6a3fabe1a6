// Making and updating elements. All text is set as text: names of groups and members are whatever
// clients say, and may look like HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "rect", "path", "line", "circle", "polyline", "title", "text"]);

/**
 * An element with attributes and children. `on` holds listeners by event, `style` properties (set
 * by script, as the content security policy allows no others); attributes that are null, undefined
 * or false are left out. Children may be nodes, text, numbers, lists of these, or null.
 */
export function element(tag, attributes = {}, ...children) {
  const made = SVG_TAGS.has(tag)
    ? document.createElementNS(SVG, tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    setAttribute(made, name, value);
  }
  append(made, children);
  return made;
}

function setAttribute(made, name, value) {
  if (value === null || value === undefined || value === false) {
    return;
  }
  if (name === "on") {
    for (const [event, listener] of Object.entries(value)) {
      made.addEventListener(event, listener);
    }
  } else if (name === "style") {
    for (const [property, setting] of Object.entries(value)) {
      made.style.setProperty(property, setting);
    }
  } else {
    made.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(child instanceof Node ? child : String(child));
    }
  }
}

/** Put other children into an element; nothing is touched if it shows them already. */
export function fill(parent, ...children) {
  const wanted = children.flat(Infinity).filter((each) => each !== null && each !== undefined);
  if (wanted.length === 1 && !(wanted[0] instanceof Node)) {
    setText(parent, wanted[0]);
    return;
  }
  const present = [...parent.childNodes];
  if (present.length !== wanted.length || wanted.some((each, at) => each !== present[at])) {
    parent.replaceChildren(...wanted.map((each) => (each instanceof Node ? each : String(each))));
  }
}

/** Set an element's text, unless it has it already: screen readers say what is set anew. */
export function setText(shown, text) {
  const wanted = String(text);
  if (shown.textContent !== wanted) {
    shown.textContent = wanted;
  }
}

/** Set or remove an attribute, if that changes anything. */
export function mark(shown, name, value) {
  if (value === null || value === undefined || value === false) {
    shown.removeAttribute(name);
  } else if (shown.getAttribute(name) !== String(value)) {
    shown.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * Have a parent show one child for each item, in their order. Children are kept by key, so that
 * focus, selection and open details outlive updates. `make(item)` returns a new child and
 * `update(child, item)` brings one up to date.
 */
export function reconcile(parent, items, keyOf, make, update) {
  const known = (parent.reconciled ??= new Map());
  const wanted = new Map(items.map((item) => [keyOf(item), item]));
  for (const [key, child] of known) {
    if (!wanted.has(key)) {
      remove(child);
      known.delete(key);
    }
  }
  let place = parent.firstChild;
  for (const [key, item] of wanted) {
    let child = known.get(key);
    if (child === undefined) {
      child = make(item);
      known.set(key, child);
    }
    update(child, item);
    if (child === place) {
      place = place.nextSibling;
    } else {
      move(child, parent, place);
    }
  }
}

// What stood beside each child that is gone.
const heirs = new WeakMap();

function remove(child) {
  const hadFocus = child.contains(document.activeElement);
  const heir = child.nextElementSibling ?? child.previousElementSibling;
  child.remove();
  if (heir !== null) {
    heirs.set(child, heir);
  }
  if (hadFocus) {
    focusOn(child);
  }
}

/** Give an element the focus; if it is gone, which is not to lose the focus, what stood beside it. */
export function focusOn(element) {
  let wanted = element;
  while (wanted && !wanted.isConnected) {
    wanted = heirs.get(wanted.getRootNode());
  }
  const control = wanted === element || wanted?.matches("a, button") ? wanted : wanted?.querySelector("a, button:not([hidden])");
  control?.focus?.({ preventScroll: true });
}

// What is moved loses the focus.
function move(child, parent, place) {
  const focused = child.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(child, place);
  focused?.focus({ preventScroll: true });
}

/** The key of a reconciled item that is made of several texts, none of which may run into another. */
export function keyOf(...parts) {
  return JSON.stringify(parts);
}
