// Colours for members: the same for a member as long as the page lives, and told apart as well as
// colours can be. A number goes with each, since no one tells fifty colours apart by eye.

// Hues that are far from each other come first; after them, the same hues lighter and darker.
const HUES = [212, 28, 145, 330, 265, 52, 185, 0, 95, 300];
const SHADES = [
  { saturation: 52, light: 53 },
  { saturation: 40, light: 70 },
  { saturation: 48, light: 38 },
  { saturation: 20, light: 55 },
];

/** The key of a member's colour: a static member keeps its own when its process is replaced. */
export function colourKey(member) {
  return member.instance === null ? `member ${member.member}` : `instance ${member.instance}`;
}

/** The colour at a place in the palette, as CSS. */
export function colourAt(place) {
  const hue = HUES[place % HUES.length];
  const round = Math.floor(place / HUES.length);
  const { saturation, light } = SHADES[round % SHADES.length];
  // After forty colours the hues are turned a little, so that none is quite the same again.
  const turn = Math.floor(round / SHADES.length) * 9;
  return `hsl(${(hue + turn) % 360} ${saturation}% ${light}%)`;
}

/** Black or white, whichever is read better on the colour at a place. */
export function inkAt(place) {
  const { light } = SHADES[Math.floor(place / HUES.length) % SHADES.length];
  const isPale = light >= 60 || [28, 52, 95, 145, 185].includes(HUES[place % HUES.length]);
  return isPale && light >= 50 ? "#10151c" : "#ffffff";
}

// How many members that are gone keep their colours, which the past shows.
const KEPT = 400;

/**
 * Gives each key a place in the palette. Keys are given places in the order in which they come, and
 * keep them: a member's colour does not change when another one comes or goes. Where members come
 * and go for days, those that were gone first lend their places to new ones.
 */
export function makePalette() {
  const places = new Map();
  const free = [];
  let next = 0;
  return {
    /** The place of a key. */
    place(key) {
      let place = places.get(key);
      if (place === undefined) {
        place = free.shift() ?? next;
        next = Math.max(next, place + 1);
        places.set(key, place);
      }
      return place;
    },
    colour(key) {
      return colourAt(this.place(key));
    },
    ink(key) {
      return inkAt(this.place(key));
    },
    /** Give places to those that are there at once, sorted, so that they do not depend on chance. */
    know(keys) {
      for (const key of [...keys].sort()) {
        this.place(key);
      }
      const present = new Set(keys);
      for (const [key, place] of places) {
        if (places.size <= KEPT + present.size) {
          break;
        }
        if (!present.has(key)) {
          places.delete(key);
          free.push(place);
        }
      }
    },
  };
}
