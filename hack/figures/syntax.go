package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// linesOf sums up all physical lines of a part, comments included.
func linesOf(p part) func(*house) (float64, string) {
	return func(h *house) (float64, string) {
		var t tally
		for _, s := range h.sources {
			if s.part == p && !s.isTest {
				t.add(s.lines(), short(s.folder))
			}
		}
		return t.sum()
	}
}

// packagesAt counts packages whose folder is from low to high folders below internal. Packages elsewhere have level 0. The
// worst place is the folder above most packages.
func packagesAt(low, high int) func(*house) (float64, string) {
	return func(h *house) (float64, string) {
		var t tally
		seen := map[string]bool{}
		for _, s := range h.sources {
			level := 0
			if strings.HasPrefix(s.folder, "internal/") {
				level = strings.Count(s.folder, "/")
			}
			if !s.isTest && s.part != sandbox && s.part != elsewhere && low <= level && level <= high && !seen[s.folder] {
				seen[s.folder] = true
				t.add(1, path.Dir(s.folder))
			}
		}
		return t.sum()
	}
}

// functions counts the branches of each function, and of each function literal of a variable.
func functions(h *house, see func(branches int, folder, name string)) {
	for _, s := range h.product() {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				see(branches(n), short(s.folder), "."+n.Name.Name)
				return false
			case *ast.FuncLit:
				see(branches(n), short(s.folder), ", a function in a variable")
				return false
			}
			return true
		})
	}
}

// branches counts as gocyclo does: 1, and 1 for each if, loop, case, && and ||. A default is no case.
func branches(n ast.Node) int {
	count := 1
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			count++
		case *ast.CaseClause:
			count += min(len(n.List), 1)
		case *ast.CommClause:
			if n.Comm != nil {
				count++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				count++
			}
		}
		return true
	})
	return count
}

// widths counts the columns of each line of the product. A tab has 4 columns.
func widths(h *house, see func(columns int, file, line string)) {
	for _, s := range h.product() {
		for i, line := range strings.Split(string(s.text), "\n") {
			see(utf8.RuneCountInString(line)+3*strings.Count(line, "\t"), s.path, fmt.Sprintf(":%d", i+1))
		}
	}
}

// testName matches functions that `go test` runs. TestMain only prepares them.
var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)($|[^a-z])`)

// testLines sums up the lines of test files that only help other test files.
func testLines(h *house) (float64, string) {
	var t tally
	for _, s := range h.sources {
		hasTest := slices.ContainsFunc(s.syntax.Decls, func(d ast.Decl) bool {
			f, is := d.(*ast.FuncDecl)
			return is && f.Recv == nil && f.Name.Name != "TestMain" && testName.MatchString(f.Name.Name)
		})
		if s.isTest && !hasTest {
			t.add(s.lines(), short(s.folder))
		}
	}
	return t.sum()
}
