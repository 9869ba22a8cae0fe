package simulator

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

type tally struct{ Count int }

func TestStateSurvivesRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "tally.json")
	s, err := Open(file, &tally{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := s.Write(func(t *tally) error { t.Count++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	refused := errors.New("refused")
	if err := s.Write(func(*tally) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("the refusal is %v", err)
	}
	again, err := Open(file, &tally{})
	if err != nil {
		t.Fatal(err)
	}
	again.Read(func(found *tally) {
		if found.Count != 20 {
			t.Errorf("%d are found, want 20", found.Count)
		}
	})
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v; it may hold secrets", info.Mode(), err)
	}
	left, _ := os.ReadDir(filepath.Dir(file))
	if len(left) != 1 {
		t.Errorf("%d files lie in the directory, want the state alone", len(left))
	}
}

func TestDamagedFileError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tally.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, &tally{}); err == nil {
		t.Error("a damaged file is opened")
	}
}
