package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
)

// hostileText writes to the clipboard, hides the following text, and changes the direction of text.
const hostileText = "evil\x1b]52;c;cm0=\x07\x1b[8m\u202e\u009b1m"

// Control characters of a terminal.
var control = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

// shown kamino ARGS runs a verb. The output must contain hostile text, without control characters.
func shown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: shown kamino ARGS...")
	}
	_ = ts.Exec(args[0], args[1:]...)
	printed := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	switch {
	case !strings.Contains(printed, "evil"):
		ts.Fatalf("nothing hostile is printed")
	case !utf8.ValidString(printed) || control.MatchString(printed):
		ts.Fatalf("it controls the terminal: %q", printed)
	}
}

// TestEachVerbIsTriedWithHostileText in the transcript of that name.
func TestEachVerbIsTriedWithHostileText(t *testing.T) {
	text, err := os.ReadFile("testdata/hostile.txtar")
	if err != nil {
		t.Fatal(err)
	}
	started := false
	for _, verb := range NewFactory().command(&Options{}, &started).Commands() {
		if !regexp.MustCompile(`(?m)^shown kamino ` + verb.Name() + `\b`).Match(text) {
			t.Errorf("testdata/hostile.txtar does not try kamino %s", verb.Name())
		}
	}
}

// TestNoVerbPrintsAroundTheWriter: only the factory uses the process's own streams.
func TestNoVerbPrintsAroundTheWriter(t *testing.T) {
	allowed := map[string]string{"factory.go": "os.Stdout os.Stderr"}
	around := regexp.MustCompile(`^(os\.Std(out|err)|fmt\.Print(f|ln)?|print\.Raw|log\.Print(f|ln)?)$`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				if name, is := call.Fun.(*ast.Ident); is && (name.Name == "print" || name.Name == "println") {
					t.Errorf("%s calls the builtin %s", path, name.Name)
				}
			}
			if s, is := n.(*ast.SelectorExpr); is {
				if of, is := s.X.(*ast.Ident); is {
					if name := of.Name + "." + s.Sel.Name; around.MatchString(name) && !strings.Contains(allowed[path], name) {
						t.Errorf("%s uses %s: print through the factory's Out and Err", path, name)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
