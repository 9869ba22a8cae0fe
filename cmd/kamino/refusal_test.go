package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusalsHaveRemedies: one function builds refusals from the obstacle and the remedy, so that no code splits a
// message. Only that function creates a Refusal, and each Refusal has a remedy.
func TestRefusalsHaveRemedies(t *testing.T) {
	made := 0
	err := filepath.WalkDir("../../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(filepath.Dir(path), "test") || strings.HasSuffix(path, "cloud/refusal.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					lit, isLit := e.(*ast.CompositeLit)
					if isRefusal(elementOf(n.Type)) && isLit && len(lit.Elts) > 0 {
						t.Errorf("%s: use cloud.Refuse to make a refusal", set.Position(lit.Pos()))
					}
				}
				if isRefusal(n.Type) && len(n.Elts) > 0 {
					t.Errorf("%s: use cloud.Refuse to make a refusal", set.Position(n.Pos()))
				}
			case *ast.CallExpr:
				if called, is := n.Fun.(*ast.SelectorExpr); is && called.Sel.Name == "Refuse" && len(n.Args) == 3 {
					made++
					if lit, is := n.Args[2].(*ast.BasicLit); is && lit.Value == `""` {
						t.Errorf("%s: the refusal has no remedy", set.Position(n.Pos()))
					}
				}
				if called, is := n.Fun.(*ast.Ident); is && called.Name == "refuse" && len(n.Args) > 2 {
					made++
					if lit, is := n.Args[1].(*ast.BasicLit); is && lit.Value == `""` {
						t.Errorf("%s: the refusal has no remedy", set.Position(n.Pos()))
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || made < 60 {
		t.Errorf("%d refusals were found, %v", made, err)
	}
}

// elementOf is the type of a slice's elements.
func elementOf(e ast.Expr) ast.Expr {
	if array, is := e.(*ast.ArrayType); is {
		return array.Elt
	}
	return nil
}

func isRefusal(e ast.Expr) bool {
	selector, is := e.(*ast.SelectorExpr)
	return is && selector.Sel.Name == "Refusal"
}
