// Excerpts of pages among the results of a search are fetched, which browsers refuse for files.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";

// Code, tables and formulas that are wider than their place can be scrolled by keys, too.
function focusScrolling() {
  for (const block of document.querySelectorAll(".highlight pre, .table-wrapper, div.math, p:has(math)")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
    else block.removeAttribute("tabindex");
  }
}

// A picture is a link to itself; those of the gallery's cards are links to their pages.
function linkPictures() {
  for (const picture of document.querySelectorAll("article img")) {
    if (picture.closest("a, .cards") !== null) continue;
    const link = document.createElement("a");
    link.className = `whole-picture ${picture.className}`; // with its theme
    link.href = picture.src;
    picture.replaceWith(link);
    link.append(picture);
  }
}

addEventListener("DOMContentLoaded", () => {
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  linkPictures();
  focusScrolling();
});
addEventListener("resize", focusScrolling);
