package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// methodsAtMost limits the methods of a type: a type with more methods is more than one thing.
var methodsAtMost = map[string]int{"../../internal": 40, "../../api": 40, "../../sandbox": 80}

func TestNoTypeHasTooManyMethods(t *testing.T) {
	for tree, most := range methodsAtMost {
		count := map[string]int{}
		err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				if f, isFunc := d.(*ast.FuncDecl); isFunc && f.Recv != nil {
					count[filepath.Dir(path)+"."+receiver(f.Recv.List[0].Type)]++
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(count) == 0 {
			t.Errorf("no types are found in %s", tree)
		}
		for name, n := range count {
			if n > most {
				t.Errorf("%s has %d methods, at most %d are allowed: split the type by subject", name, n, most)
			}
		}
	}
}

// linesAtMost limits the lines of a package, without tests and packages below: the command asks and prints, and other code
// belongs into packages that a controller can use, too.
var linesAtMost = map[string]int{"../../internal/cli": 4000}

func TestNoPackageIsTooLong(t *testing.T) {
	for room, most := range linesAtMost {
		files, err := filepath.Glob(room + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files (%v)", room, err)
		}
		lines := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(text), "\n")
		}
		if lines > most {
			t.Errorf("%s has %d lines, at most %d are allowed: move code that is neither input nor output into another package", room, lines, most)
		}
	}
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
