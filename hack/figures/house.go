package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/kamino-dev/kamino/"

// A part of the house. Control plane and node agent together are the product.
type part int

const (
	elsewhere part = iota
	controlPlane
	nodeAgent
	testKit
	sandbox
)

// folders lists the parts that are folders, each with the folders below. The control plane is the rest of api, cmd and internal.
// Code of the node agent runs only in a pod on a node: generalize, patches, the probe of a trial, and their verbs.
var folders = map[part][]string{
	nodeAgent: {"cmd/kamino-node", "internal/agent", "internal/trial/probe"},
	testKit:   {"internal/policy/week", "internal/testing"},
	sandbox:   {"sandbox"},
}

// partOf returns the part of a folder.
func partOf(folder string) part {
	below := func(root string) bool { return folder == root || strings.HasPrefix(folder, root+"/") }
	for p, roots := range folders {
		if slices.ContainsFunc(roots, below) {
			return p
		}
	}
	if below("api") || below("cmd") || below("internal") {
		return controlPlane
	}
	return elsewhere
}

// source is a Go file that no generator made.
type source struct {
	// path and folder begin at the root of the repository. Figures print the folder without "internal/".
	path, folder string
	part         part
	isTest       bool
	text         []byte
	syntax       *ast.File
}

// checked is a package of the product with its types, without tests.
type checked struct {
	// short is the folder without "internal/".
	short  string
	set    *token.FileSet
	syntax []*ast.File
	types  *types.Package
	info   *types.Info
}

// house is what the figures measure: all files by path, the Go files in order of path, and the packages of the product.
type house struct {
	files    map[string][]byte
	sources  []source
	packages []checked
	// places keeps the result of the function of this name.
	places map[string]int
}

// newHouse parses the Go files.
func newHouse(files map[string][]byte) (*house, error) {
	h := &house{files: files}
	for name, text := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if folder := path.Dir(name); !ast.IsGenerated(syntax) {
			h.sources = append(h.sources, source{name, folder, partOf(folder), strings.HasSuffix(name, "_test.go"), text, syntax})
		}
	}
	slices.SortFunc(h.sources, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return h, nil
}

// product are the sources of control plane and node agent, without tests.
func (h *house) product() (product []source) {
	for _, s := range h.sources {
		if !s.isTest && (s.part == controlPlane || s.part == nodeAgent) {
			product = append(product, s)
		}
	}
	return product
}

// load reads the repository in the current folder: the files that git has, and new ones that git does not ignore.
func load() (*house, error) {
	names, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := map[string][]byte{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if files[name], err = os.ReadFile(name); errors.Is(err, fs.ErrNotExist) {
			delete(files, name) // deleted, and not yet committed
		} else if err != nil {
			return nil, err
		}
	}
	h, err := newHouse(files)
	if err != nil {
		return nil, err
	}
	for p, roots := range folders {
		for _, root := range roots {
			if !slices.ContainsFunc(h.sources, func(s source) bool { return s.part == p && strings.HasPrefix(s.path, root+"/") }) {
				return nil, fmt.Errorf("%s has no Go file: correct the table of folders in hack/figures/house.go", root)
			}
		}
	}
	// Types of other modules come from the build cache.
	set := token.NewFileSet()
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Fset: set}, "./api/...", "./cmd/...", "./internal/...")
	if err != nil {
		return nil, err
	}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s does not compile: %w", p.PkgPath, p.Errors[0])
		}
		if folder := strings.TrimPrefix(p.PkgPath, module); partOf(folder) != testKit {
			h.packages = append(h.packages, checked{short(folder), set, p.Syntax, p.Types, p.TypesInfo})
		}
	}
	return h, nil
}

func short(folder string) string { return strings.TrimPrefix(folder, "internal/") }

func (s source) lines() int { return bytes.Count(s.text, []byte("\n")) }
