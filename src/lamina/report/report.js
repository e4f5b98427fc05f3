// Draws each chart from the specification beside it. Until that has worked, and in print, the still image stands.
const MARGIN = 70; // a panel's axis and the space to its neighbour

function fitted(spec, width) {
  const panel = spec.usermeta?.panelWidth;
  if (!panel || !spec.concat) return spec;
  const columns = Math.min(spec.columns, Math.max(1, Math.floor(width / (panel + MARGIN))));
  return { ...spec, columns };
}

async function draw(box) {
  const spec = JSON.parse(document.getElementById(box.dataset.spec).textContent);
  const actions = { export: true, source: false, compiled: false, editor: false };
  let columns;
  let view;

  async function redraw() {
    const fit = fitted(spec, box.parentElement.clientWidth);
    if (view && fit.columns === columns) return;
    columns = fit.columns;
    view?.finalize();
    view = await vegaEmbed(box, fit, { mode: "vega-lite", renderer: "svg", actions, downloadFileName: box.dataset.name });
    box.parentElement.classList.add("drawn");
  }

  await redraw();
  new ResizeObserver(redraw).observe(box.parentElement);
}

for (const box of document.querySelectorAll(".live")) {
  draw(box).catch((error) => console.error(error)); // the still image stays
}

// Printed pages show what is folded away on screen.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});
