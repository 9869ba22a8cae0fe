"use strict";
// The page is whole without this script. The script replaces the content after a change.
(function () {
  if (!window.EventSource || !window.DOMParser || !window.fetch) {
    return;
  }
  var main = document.getElementById("main");
  var state = document.getElementById("state");

  function say(text) {
    if (state.textContent !== text) {
      state.textContent = text;
    }
  }

  function show(text) {
    var next = new DOMParser().parseFromString(text, "text/html").getElementById("main");
    if (!next) {
      return;
    }
    main.querySelectorAll("details[id]").forEach(function (old) {
      var same = next.querySelector("#" + CSS.escape(old.id));
      if (same) {
        same.open = old.open;
      }
    });
    // Focus and places of scrolled tables are kept by their position in the page.
    var places = ".scroll, a, summary, [id]";
    var before = Array.from(main.querySelectorAll(places));
    var focused = before.indexOf(document.activeElement);
    var scrolled = before.map(function (e) { return e.scrollLeft; });
    main.replaceChildren.apply(main, Array.from(next.childNodes));
    var after = main.querySelectorAll(places);
    if (before.length === after.length) {
      after.forEach(function (e, i) { e.scrollLeft = scrolled[i]; });
      if (focused >= 0) {
        after[focused].focus({ preventScroll: true });
      }
    }
  }

  var source = new EventSource("stream");
  source.addEventListener("changed", function () {
    fetch(location.pathname + location.search, { cache: "no-store" }).then(function (answer) {
      return answer.text();
    }).then(show).catch(function () { say("No answer: the page is old."); });
  });
  source.onopen = function () { say(""); };
  source.onerror = function () { say("Connection lost: the page is old."); };
})();
