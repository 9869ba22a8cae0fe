"use strict";
// Loaded before all else: collects what the browser refuses, and errors of scripts.
window.refused = [];
document.addEventListener("securitypolicyviolation", function (e) {
  window.refused.push(e.violatedDirective + " " + e.blockedURI);
});
window.addEventListener("error", function (e) {
  window.refused.push("error: " + e.message);
});
