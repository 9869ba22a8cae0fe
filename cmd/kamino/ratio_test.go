package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testsAtLeast is the number of test lines of a pure package per hundred lines of code: deciding code needs no environment,
// and is tested thoroughly. Empty lines and comments do not count. A row of a table is one line, so that much is tested by few lines.
const testsAtLeast = 140

func TestPurePackagesAreTestedThrough(t *testing.T) {
	for name, r := range rooms {
		if !r.pure {
			continue
		}
		files, err := filepath.Glob("../../" + name + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files (%v)", name, err)
		}
		code, tests := 0, 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				tests += linesOf(t, file)
			} else {
				code += linesOf(t, file)
			}
		}
		if tests*100 < testsAtLeast*code {
			t.Errorf("%s has %d lines of tests for %d lines of code, or %d per hundred: at least %d are required",
				name, tests, code, tests*100/code, testsAtLeast)
		}
	}
}

// linesOf counts a file's lines but for empty ones and comments.
func linesOf(t *testing.T, file string) (n int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); text != "" && !strings.HasPrefix(text, "//") {
			n++
		}
	}
	return n
}
