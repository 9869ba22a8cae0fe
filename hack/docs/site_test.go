package docs

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSite checks the site that `make docs-site` built: each page is there, and each link leads to a page and a heading of
// the site, or to a file of the repository. The site loads nothing from elsewhere, and runs no script.
func TestSite(t *testing.T) {
	root := os.Getenv("KAMINO_SITE")
	if root == "" {
		t.Skip("run make docs-site")
	}
	sites := map[string]string{} // HTML by path
	for _, path := range filesBelow(t, root, ".html") {
		sites[path] = page(t, path)
	}
	for _, path := range files(t, ".md") {
		inside := strings.TrimPrefix(path, "../")
		if !strings.HasPrefix(inside, "docs/") && strings.Contains(inside, "/") {
			continue
		}
		if sites[filepath.Join(root, siteFile(inside))] == "" {
			t.Errorf("the site has no page for %s: is there a mount in tools/site/hugo.yaml?", inside)
		}
	}
	link, id := regexp.MustCompile(`(?:href|src|srcset)="?([^"\s>]+)`), regexp.MustCompile(`id="?([^"\s>]+)`)
	loaded := regexp.MustCompile(`<(?:script|(?:link|img|source|iframe)[^>]*://)[^>]*`)
	anchors, found := map[string][]string{}, 0
	for path, text := range sites {
		for _, match := range id.FindAllStringSubmatch(text, -1) {
			anchors[path] = append(anchors[path], match[1])
		}
	}
	for path, text := range sites {
		if other := loaded.FindString(text); other != "" {
			t.Errorf("%s loads something from elsewhere, or runs a script: %s", path, other)
		}
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, heading, _ := strings.Cut(html.UnescapeString(match[1]), "#")
			to := filepath.Join(filepath.Dir(path), target)
			switch inside, isSource := strings.CutPrefix(target, "https://github.com/kamino-dev/kamino/blob/main/"); {
			case isSource:
				to, heading = filepath.Join("..", inside), ""
			case strings.Contains(target, ":"):
				continue
			case target == "":
				to = path
			}
			found++
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", path, match[1], err)
			} else if heading != "" && !slices.Contains(anchors[to], heading) {
				t.Errorf("%s links to %s, and there is no such heading", path, match[1])
			}
		}
	}
	if found < 2000 {
		t.Errorf("only %d links were read", found)
	}
}

// siteFile is the path of a page on the site.
func siteFile(path string) string {
	path = strings.ToLower(strings.TrimSuffix(path, ".md"))
	if filepath.Base(path) == "readme" {
		path = filepath.Join(filepath.Dir(path), "index")
	}
	return path + ".html"
}
