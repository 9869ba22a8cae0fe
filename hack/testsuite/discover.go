package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// root is the import path of the product's module, and sandboxModule the directory of the sandbox's.
const (
	root          = "github.com/kamino-dev/kamino/"
	sandboxModule = "sandbox"
	// machinesTag is the build tag of the tests on real machines, which need root, and machinesPackage their package.
	machinesTag     = "machines"
	machinesPackage = "sandbox/machine/real"
)

// Package is one package that has tests.
type Package struct {
	// Name is its directory in the project, with slashes.
	Name string
	// dir is the directory of its files, and module the one of its go.mod.
	dir, module string
	Tests       []Test
	// Alone: it must have the machine to itself, and says why behind the directive aloneDirective.
	Alone bool
	files []string
}

// Test is one top-level test function.
type Test struct {
	Package, Name string
	// AsksShort: its body calls testing.Short, so that it has a full form, or none but that.
	AsksShort bool
}

// aloneDirective marks a package whose tests must not run next to others.
const aloneDirective = "//testsuite:alone "

// LongOnly reports whether all tests of a package belong to the long suite alone.
func (p Package) LongOnly() bool {
	return strings.HasPrefix(p.Name, "sandbox/e2e/") || p.Name == "sandbox/capi"
}

// OnMachines reports whether the tests of a package run on real machines, and so in neither the short nor the long suite.
func (p Package) OnMachines() bool { return p.Name == machinesPackage }

// LongTests are the tests of the long suite, in the order of their packages.
func LongTests(all []Package) []Test {
	return testsOf(all, func(p Package, t Test) bool { return !p.OnMachines() && (p.LongOnly() || t.AsksShort) })
}

// MachineTests are the tests on real machines.
func MachineTests(all []Package) []Test {
	return testsOf(all, func(p Package, _ Test) bool { return p.OnMachines() })
}

func testsOf(all []Package, belongs func(Package, Test) bool) (out []Test) {
	for _, p := range all {
		for _, t := range p.Tests {
			if belongs(p, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// discover finds the packages with tests of both modules, in the order of their names.
func discover(ctx context.Context) ([]Package, error) {
	var all []Package
	for _, module := range []string{".", sandboxModule} {
		packages, err := listPackages(ctx, module)
		if err != nil {
			return nil, err
		}
		all = append(all, packages...)
	}
	slices.SortFunc(all, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func listPackages(ctx context.Context, module string) ([]Package, error) {
	command := exec.CommandContext(ctx, "go", "list", "-tags", machinesTag, "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "./...")
	command.Dir = module
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w\n%s", module, err, &stderr)
	}
	var packages []Package
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			Dir, ImportPath           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", module, err)
		}
		p := Package{Name: strings.TrimPrefix(listed.ImportPath, root), dir: listed.Dir, module: module}
		for _, name := range slices.Concat(listed.TestGoFiles, listed.XTestGoFiles) {
			if err := p.add(filepath.Join(listed.Dir, name)); err != nil {
				return nil, err
			}
		}
		if len(p.Tests) > 0 {
			packages = append(packages, p)
		}
	}
}

// add reads the tests of a file.
func (p *Package) add(path string) error {
	p.files = append(p.files, path)
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			p.Alone = p.Alone || strings.HasPrefix(comment.Text, aloneDirective)
		}
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil || !isTestName(function.Name.Name) {
			continue
		}
		p.Tests = append(p.Tests, Test{Package: p.Name, Name: function.Name.Name, AsksShort: asksShort(function.Body)})
	}
	return nil
}

func isTestName(name string) bool {
	return strings.HasPrefix(name, "Test") && name != "TestMain"
}

// asksShort reports whether a body calls testing.Short.
func asksShort(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if ok {
			from, _ := selector.X.(*ast.Ident)
			found = found || from != nil && from.Name == "testing" && selector.Sel.Name == "Short"
		}
		return !found
	})
	return found
}
