package cloudtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud/cloudtest"
)

// TestOptionalInterfaces: the list of powers and the comments of package cloud agree, and the decorators support all powers.
func TestOptionalInterfaces(t *testing.T) {
	var declared, listed []string
	files, err := filepath.Glob("../*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, is := d.(*ast.GenDecl)
			if !is || g.Tok != token.TYPE || !strings.Contains(g.Doc.Text(), " is the power to ") {
				continue
			}
			for _, spec := range g.Specs {
				declared = append(declared, spec.(*ast.TypeSpec).Name.Name)
			}
		}
	}
	for _, power := range cloudtest.Powers() {
		listed = append(listed, power.Name())
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) {
		t.Errorf("package cloud has the powers %v, and decorators cover %v", declared, listed)
	}
}
