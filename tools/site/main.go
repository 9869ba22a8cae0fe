// Command site renders the documentation as a static site. Usage: site ROOT OUT
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// source is the address of files that are no pages.
const source = "https://github.com/kamino-dev/kamino/blob/main/"

//go:embed page.html
var layout string

//go:embed style.css
var style []byte

// page is a page with its path in the repository.
type page struct {
	Path, Title string
	Body        template.HTML
	Root        string // path to the root of the site
	Near        []link // pages of the same section
}

type link struct{ Title, Target string }

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site ROOT OUT")
		os.Exit(2)
	}
	if err := write(os.DirFS(os.Args[1]), os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write renders all pages of a repository, and copies the files of the documentation.
func write(root fs.FS, out string) error {
	paths, err := fs.Glob(root, "*.md")
	if err != nil {
		return err
	}
	files := map[string][]byte{"style.css": style}
	err = fs.WalkDir(root, "docs", func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir():
			return err
		case strings.HasSuffix(p, ".md"):
			paths = append(paths, p)
		case !strings.HasSuffix(p, ".go"):
			files[p], err = fs.ReadFile(root, p)
		}
		return err
	})
	if err != nil {
		return err
	}
	var pages []page
	for _, p := range paths {
		content, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		rendered, err := render(root, p, content)
		if err != nil {
			return err
		}
		pages = append(pages, rendered)
	}
	shape := template.Must(template.New("page").Parse(layout))
	for _, p := range pages {
		for _, other := range pages {
			if dir := path.Dir(p.Path); dir != "." && dir == path.Dir(other.Path) {
				p.Near = append(p.Near, link{other.Title, path.Base(address(other.Path))})
			}
		}
		var b bytes.Buffer
		if err := shape.Execute(&b, p); err != nil {
			return err
		}
		files[address(p.Path)] = b.Bytes()
	}
	for name, content := range files {
		to := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// address is the path of a page on the site.
func address(p string) string {
	p = strings.TrimSuffix(p, ".md") + ".html"
	return strings.TrimSuffix(p, "README.html") + map[bool]string{true: "index.html"}[strings.HasSuffix(p, "README.html")]
}

// render makes a page. Links to pages lead to the site, and all other relative links to the repository.
func render(root fs.FS, p string, content []byte) (page, error) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))
	doc := md.Parser().Parse(text.NewReader(content), parser.WithContext(parser.NewContext(parser.WithIDs(&ids{}))))
	made := page{Path: p, Root: strings.Repeat("../", strings.Count(p, "/"))}
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if made.Title == "" {
				made.Title = plain(n, content)
			}
		case *ast.Link:
			target, err := relink(root, p, string(n.Destination))
			n.Destination = []byte(target)
			return ast.WalkContinue, err
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return page{}, err
	}
	var b bytes.Buffer
	err = md.Renderer().Render(&b, content, doc)
	made.Body = template.HTML(b.String()) //nolint:gosec // The pages are the repository's own.
	return made, err
}

// plain is the text of a heading.
func plain(n ast.Node, content []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, is := n.(*ast.Text); is && entering {
			b.Write(t.Value(content))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// relink returns the target of a link of a page.
func relink(root fs.FS, from, target string) (string, error) {
	file, heading, found := strings.Cut(target, "#")
	if file == "" || strings.Contains(file, ":") {
		return target, nil
	}
	to := path.Join(path.Dir(from), file)
	if _, err := fs.Stat(root, to); err != nil {
		return "", fmt.Errorf("%s links to %s: %w", from, target, err)
	}
	if found {
		heading = "#" + heading
	}
	switch {
	case strings.HasSuffix(to, ".md") && (strings.HasPrefix(to, "docs/") || !strings.Contains(to, "/")):
		return strings.Repeat("../", strings.Count(from, "/")) + address(to) + heading, nil
	case strings.HasPrefix(to, "docs/"):
		return target, nil
	}
	return source + to + heading, nil
}

// ids makes the anchors of headings as GitHub does, so that the links of the pages fit.
type ids struct{ used []string }

var drop = regexp.MustCompile(`[^a-z0-9 _-]`)

// Generate implements parser.IDs.
func (i *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(value))), ""), " ", "-")
	for n := 1; slices.Contains(i.used, id); n++ {
		id = fmt.Sprintf("%s-%d", strings.TrimSuffix(id, fmt.Sprintf("-%d", n-1)), n)
	}
	i.used = append(i.used, id)
	return []byte(id)
}

// Put implements parser.IDs.
func (i *ids) Put([]byte) {}
