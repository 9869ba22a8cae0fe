"use strict";
// Checks the page, waits for a change by the stream, and reports to the test.
(async function () {
  function post(path, body) {
    return fetch("check/" + path, { method: "POST", body: JSON.stringify(body) });
  }
  try {
    var found = await axe.run(document, { resultTypes: ["violations", "incomplete"] });
    var report = {
      width: innerWidth,
      dark: matchMedia("(prefers-color-scheme: dark)").matches,
      overflow: document.documentElement.scrollWidth - innerWidth,
      passes: found.passes.length,
      violations: found.violations.map(function (v) {
        return v.impact + " " + v.id + " " + v.nodes.map(function (n) { return n.target.join(" "); }).join(", ");
      }),
    };
    // A reader has opened a list, and is on a table.
    var list = document.querySelector("details[id$=events]");
    list.open = true;
    var table = document.querySelector("#main section .scroll");
    table.focus();
    report.focusable = document.activeElement === table;
    var main = document.getElementById("main");
    var changed = new Promise(function (resolve) {
      new MutationObserver(function () {
        if (main.textContent.includes("after-the-change")) {
          resolve();
        }
      }).observe(main, { childList: true });
    });
    await post("ready", report);
    await changed;
    report.stillOpen = document.querySelector("details[id$=events]").open;
    report.stillFocused = document.activeElement.className === "scroll" && document.activeElement !== table;
    report.refused = window.refused;
    await post("done", report);
  } catch (error) {
    await post("done", { refused: ["check failed: " + error] });
  }
})();
