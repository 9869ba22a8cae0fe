package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const source = `package x

import "testing"

//testsuite:alone because another load makes nodes late.

func TestMain(m *testing.M) {}

func TestQuick(t *testing.T) {}

func TestBoth(t *testing.T) {
	n := 100
	if testing.Short() {
		n = 1
	}
	_ = n
}

func TestInAClosure(t *testing.T) {
	t.Run("a", func(t *testing.T) {
		if testing.Short() {
			t.Skip("full form only")
		}
	})
}

func helper() bool { return testing.Short() }
`

func TestLongTestsAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x_test.go")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Package{Name: "internal/x"}
	if err := p.add(path); err != nil {
		t.Fatal(err)
	}
	want := []Test{
		{Package: "internal/x", Name: "TestQuick"},
		{Package: "internal/x", Name: "TestBoth", AsksShort: true},
		{Package: "internal/x", Name: "TestInAClosure", AsksShort: true},
	}
	if diff := cmp.Diff(want, p.Tests); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
	if !p.Alone {
		t.Error("the directive is not seen")
	}
	if diff := cmp.Diff(want[1:], LongTests([]Package{p})); diff != "" {
		t.Errorf("long tests (-want +got):\n%s", diff)
	}
	p.Name = "sandbox/e2e/x"
	if diff := cmp.Diff(want, LongTests([]Package{p})); diff != "" {
		t.Errorf("long tests of a long package (-want +got):\n%s", diff)
	}
	if got := MachineTests([]Package{p}); got != nil {
		t.Errorf("tests on machines: %v", got)
	}
	p.Name = "sandbox/machine/real"
	if diff := cmp.Diff(want, MachineTests([]Package{p})); diff != "" {
		t.Errorf("tests on machines (-want +got):\n%s", diff)
	}
	if got := LongTests([]Package{p}); got != nil {
		t.Errorf("tests on machines in the long suite: %v", got)
	}
}
