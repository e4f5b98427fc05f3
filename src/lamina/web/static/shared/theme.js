// @ts-check
// How things look, as the server says it, and whether the page is dark.
import { read } from "./api.js";

export const THEME = await read("/theme");

const query = matchMedia("(prefers-color-scheme: dark)");

export const isDark = () => query.matches;

/** @param {() => void} heard */
export const onScheme = (heard) => query.addEventListener("change", heard);
