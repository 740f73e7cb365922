"use strict";
// Shows beside the pointer what a mark of a chart says.
(() => {
  const tip = document.getElementById("tip");

  document.addEventListener("pointerover", (event) => {
    const mark = event.target instanceof Element ? event.target.closest(".chart svg [aria-label]") : null;
    const isMark = mark && mark.getAttribute("role") === "graphics-symbol";
    tip.hidden = !(isMark && mark.getAttribute("aria-label").includes(tip.dataset.separator));
    if (tip.hidden) return;
    tip.textContent = mark.getAttribute("aria-label");
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - box.width - 4))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
  });
})();
